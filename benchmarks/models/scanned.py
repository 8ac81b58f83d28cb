"""The MLP with its blocks stacked and scanned over: loops with sliced weights, Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import partir
from benchmarks.models.mlp import Config
from benchmarks.models.training import train_with, training_args


def loss_fn(params: dict[str, Any], x: Array, y: Array) -> Array:
    """Mean squared error of a residual MLP, a block per iteration."""

    def block(x: Array, weights: dict[str, Array]) -> tuple[Array, None]:
        hidden = jax.nn.relu(x @ weights["up"] + weights["bias"])
        return x + hidden @ weights["down"], None

    x, _ = jax.lax.scan(block, x, params)
    return jnp.mean((x - y) ** 2)


train_step = train_with(loss_fn)


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of ``train_step``'s arguments, as ``(args, kwargs)``."""
    config = config or Config()
    shapes = {
        "up": (config.blocks, config.width, config.hidden),
        "bias": (config.blocks, config.hidden),
        "down": (config.blocks, config.hidden, config.width),
    }
    x = jax.ShapeDtypeStruct((config.batch, config.width), jnp.float32)
    return training_args(shapes, x, x), {}


BATCH = partir.ManualPartition({"batch/0": 0, "batch/1": 0}, axis="B", name="BP")
MODEL = partir.ManualPartition({"params/up": 2}, axis="M", name="MP")


def matrices(name: str, shape: Sequence[int], dtype: Any) -> Any:
    """As ``schedules.matrices``; every tensor has the blocks' dimension more."""
    return partir.FIRST_DIVISIBLE_DIM if len(shape) > 2 else partir.UNKNOWN


Z2 = partir.ManualPartition(
    {"params/**": partir.REPLICATED, "opt_state/**": matrices}, axis="B", name="Z2"
)
Z3 = partir.ManualPartition(
    {"params/**": matrices, "opt_state/**": matrices}, axis="B", name="Z3"
)
