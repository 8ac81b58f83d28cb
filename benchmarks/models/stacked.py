"""The transformer with its layers stacked and scanned over.

The same numbers as ``transformer``'s: each of a layer's nine tensors has a leading
dimension of layers, so that the program holds one layer's body only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import partir
from benchmarks.models import schedules, transformer
from benchmarks.models.layers import apply_layer, attend, cross_entropy
from benchmarks.models.training import cast, init_optimizer, train_with
from benchmarks.models.transformer import Config


def step_for(config: Config, stages: int = 1, microbatches: int = 1) -> Any:
    """The training step in the number formats of ``config``.

    With more than one stage, the layers are a pipeline; what leaves it is tagged.
    """
    dtype = config.compute_dtype
    mix = jax.checkpoint(attend) if config.remat else attend

    def layer(layer: dict[str, Array], x: Array) -> Array:
        return apply_layer(layer, x, mix)

    def stack(layers: dict[str, Array], x: Array) -> Array:
        if stages > 1:
            pipeline = partir.pipelined(layer, stages, microbatches)
            return partir.tag(pipeline(layers, x), "head")
        return jax.lax.scan(lambda x, each: (layer(each, x), None), x, layers)[0]

    def loss_fn(params: dict[str, Any], tokens: Array, targets: Array) -> Array:
        params = cast(params, dtype)
        x = stack(params["layers"], params["embedding"][tokens])
        logits = jnp.einsum("bsd,vd->bsv", x, params["embedding"])
        return cross_entropy(logits, targets)

    return train_with(loss_fn)


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of the step's arguments, as ``(args, kwargs)``; no arrays."""
    config = config or Config.small()
    shapes = transformer.layer_shapes(config)
    layers = {
        name: jax.ShapeDtypeStruct((config.layers, *shape), config.dtype)
        for name, shape in shapes.items()
    }
    embedding = jax.ShapeDtypeStruct((config.vocab, config.width), config.dtype)
    params = {"embedding": embedding, "layers": layers}
    tokens = jax.ShapeDtypeStruct((config.batch, config.sequence), jnp.int32)
    return (params, jax.eval_shape(init_optimizer, params), tokens, tokens), {}


BP = partir.ManualPartition({"batch/*": 0}, axis="B", name="BP")
MP = partir.ManualPartition(
    {"params/layers/qkv": 3, "params/layers/w1": 2}, axis="M", name="MP"
)


def matrices(name: str, shape: Sequence[int], dtype: Any) -> Any:
    """As ``schedules.matrices``; a stacked tensor has the layers' dimension more."""
    rank = len(shape) - ("/layers/" in name)
    return partir.FIRST_DIVISIBLE_DIM if rank > 1 else partir.UNKNOWN


Z2 = partir.ManualPartition(
    {"params/**": partir.REPLICATED, "opt_state/**": matrices}, axis="B", name="Z2"
)
Z3 = partir.ManualPartition(
    {"params/**": matrices, "opt_state/**": matrices}, axis="B", name="Z3"
)
SCHEDULES = {
    "BP": [BP],
    "MP": [MP],
    "BP+MP": [BP, MP],
    "BP+MP+Z2": [BP, MP, Z2],
    "BP+MP+Z3": [BP, MP, Z3],
    "BP+MP+Z3+EMB": [BP, MP, Z3, schedules.EMB],
}
