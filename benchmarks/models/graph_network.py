"""Message passing on a graph: gather nodes, update edges, sum into nodes; Adam.

In the manner of graph network simulators: every step has its own MLPs, edges are many
more than nodes, and sharding the edges sums partial messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import partir
from benchmarks.models.training import train_with, training_args


@dataclass(frozen=True)
class Config:
    """Sizes."""

    steps: int = 3
    latent: int = 64
    hidden: int = 128
    nodes: int = 256
    edges: int = 2048


def mlp(layer: dict[str, Array], x: Array) -> Array:
    """Two matrices with a nonlinearity between them."""
    return jax.nn.relu(x @ layer["up"]) @ layer["down"]


def loss_fn(
    params: dict[str, Any],
    nodes: Array,
    edges: Array,
    senders: Array,
    receivers: Array,
    target: Array,
) -> Array:
    """Mean squared error of the nodes after all steps."""
    for step in params.values():
        ends = jnp.concatenate([edges, nodes[senders], nodes[receivers]], axis=-1)
        edges = edges + mlp(step["edge"], ends)
        summed = jax.ops.segment_sum(edges, receivers, num_segments=nodes.shape[0])
        nodes = nodes + mlp(step["node"], jnp.concatenate([nodes, summed], axis=-1))
    return jnp.mean((nodes - target) ** 2)


train_step = train_with(loss_fn)


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of ``train_step``'s arguments, as ``(args, kwargs)``."""
    config = config or Config()
    latent, hidden = config.latent, config.hidden
    step = {
        "edge": {"up": (3 * latent, hidden), "down": (hidden, latent)},
        "node": {"up": (2 * latent, hidden), "down": (hidden, latent)},
    }
    nodes = jax.ShapeDtypeStruct((config.nodes, latent), jnp.float32)
    edges = jax.ShapeDtypeStruct((config.edges, latent), jnp.float32)
    ends = jax.ShapeDtypeStruct((config.edges,), jnp.int32)
    shapes = {f"step_{n}": dict(step) for n in range(config.steps)}
    return training_args(shapes, nodes, edges, ends, ends, nodes), {}


EDGES = partir.ManualPartition(
    {"batch/1": 0, "batch/2": 0, "batch/3": 0}, axis="B", name="ES"
)
MODEL = partir.ManualPartition(
    {"params/*/edge/up": 1, "params/*/node/up": 1}, axis="M", name="MP"
)
