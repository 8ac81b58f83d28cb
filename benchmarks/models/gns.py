"""A graph network simulator (GNS): encode, pass messages, decode; Adam.

Every MLP has five hidden layers, an output as wide as the latents, and a layer norm,
14 tensors. Edges are many more than nodes, so that experts shard the edges (ES): each
device computes messages of its edges, and what nodes receive is summed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import partir
from benchmarks.models.layers import layer_norm
from benchmarks.models.training import train_with, training_args


@dataclass(frozen=True)
class Config:
    """Sizes; nodes and edges are those of a whole batch of graphs."""

    steps: int = 2
    depth: int = 1
    hidden: int = 32
    latent: int = 16
    features: int = 4
    nodes: int = 16
    edges: int = 64
    compute_dtype: str | None = None

    @classmethod
    def full(cls, nodes: int = 8192, edges: int = 131072) -> Config:
        """The published sizes; to be traced, not to be run."""
        return cls(
            steps=24,
            depth=5,
            hidden=1024,
            latent=512,
            features=16,
            nodes=nodes,
            edges=edges,
            compute_dtype="bfloat16",
        )


def mlp_shapes(config: Config, d_in: int, d_out: int | None = None) -> dict[str, Any]:
    """Hidden layers and an output; a norm too unless a width ``d_out`` is asked for."""
    widths = [d_in, *[config.hidden] * config.depth, d_out or config.latent]
    layers: dict[str, Any] = {
        f"linear_{n}": {"w": pair, "b": pair[1:]}
        for n, pair in enumerate(itertools.pairwise(widths))
    }
    vector = (config.latent,)
    return layers if d_out else layers | {"norm": {"scale": vector, "bias": vector}}


def param_shapes(config: Config) -> dict[str, Any]:
    """Encoders, an edge and a node MLP per step, and the decoder."""
    latent, features = config.latent, config.features
    shapes = {
        "encode_nodes": mlp_shapes(config, features),
        "encode_edges": mlp_shapes(config, features),
        "decode": mlp_shapes(config, latent, features),
    }
    for number in range(config.steps):
        shapes[f"step_{number}"] = {
            "edge": mlp_shapes(config, 3 * latent),
            "node": mlp_shapes(config, 2 * latent),
        }
    return shapes


def mlp(layers: dict[str, Any], x: Array) -> Array:
    """Linear layers with ReLU between them, then the norm if there is one."""
    last = sum(name != "norm" for name in layers) - 1
    for number in range(last + 1):
        layer = layers[f"linear_{number}"]
        x = x @ layer["w"] + layer["b"]
        x = x if number == last else jax.nn.relu(x)
    return layer_norm(x, **layers["norm"]) if "norm" in layers else x


def loss_fn(
    params: dict[str, Any],
    nodes: Array,
    edges: Array,
    senders: Array,
    receivers: Array,
    target: Array,
) -> Array:
    """Mean squared error of what is decoded from the nodes after all steps."""
    count = nodes.shape[0]
    x, e = mlp(params["encode_nodes"], nodes), mlp(params["encode_edges"], edges)
    for number in range(len(params) - 3):
        step = params[f"step_{number}"]
        message = mlp(
            step["edge"], jnp.concatenate([e, x[senders], x[receivers]], axis=-1)
        )
        received = jax.ops.segment_sum(message, receivers, num_segments=count)
        x = x + mlp(step["node"], jnp.concatenate([x, received], axis=-1))
        e = e + message
    made = mlp(params["decode"], x)
    wide = jnp.promote_types(made.dtype, jnp.float32)
    return jnp.mean((made.astype(wide) - target.astype(wide)) ** 2)


def step_for(config: Config) -> Any:
    """The training step in the number formats of ``config``."""
    return train_with(loss_fn, config.compute_dtype)


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of the step's arguments, as ``(args, kwargs)``; no arrays."""
    config = config or Config()
    nodes = jax.ShapeDtypeStruct((config.nodes, config.features), jnp.float32)
    edges = jax.ShapeDtypeStruct((config.edges, config.features), jnp.float32)
    ends = jax.ShapeDtypeStruct((config.edges,), jnp.int32)
    return training_args(param_shapes(config), nodes, edges, ends, ends, nodes), {}


ES = partir.ManualPartition(
    {"batch/1": 0, "batch/2": 0, "batch/3": 0}, axis="B", name="ES"
)
# Nodes too, after the edges: gathered for messages, sums of messages scattered.
NS = partir.ManualPartition({"batch/0": 0, "batch/4": 0}, axis="B", name="NS")
# Between a pair of layers the hidden dimension is split, as in a transformer's MLP.
MP = partir.ManualPartition(
    {
        "params/**/linear_0/w": 1,
        partir.optional("params/**/linear_2/w"): 1,
        partir.optional("params/**/linear_4/w"): 1,
    },
    axis="M",
    name="MP",
)
ES_M = partir.ManualPartition(
    {"batch/1": 0, "batch/2": 0, "batch/3": 0}, axis="M", name="ES(M)"
)
NS_M = partir.ManualPartition({"batch/0": 0, "batch/4": 0}, axis="M", name="NS(M)")
SCHEDULES = {
    "ES": [ES],
    "ES+NS": [ES, NS],
    "MP": [MP],
    "ES+MP": [ES, MP],
    "ES+NS+MP": [ES, NS, MP],
    "ES+ES(M)+NS+NS(M)": [ES, ES_M, NS, NS_M],
}
