"""A deep MLP on vectors, mean squared error, Adam.

Wide matrices and little else: what a partition does to it is easy to foresee.
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
    """Sizes; each block has two matrices around a hidden layer."""

    blocks: int = 4
    width: int = 256
    hidden: int = 1024
    batch: int = 512


def loss_fn(params: dict[str, Any], x: Array, y: Array) -> Array:
    """Mean squared error of a residual MLP."""
    for block in params.values():
        x = x + jax.nn.relu(x @ block["up"] + block["bias"]) @ block["down"]
    return jnp.mean((x - y) ** 2)


train_step = train_with(loss_fn)


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of ``train_step``'s arguments, as ``(args, kwargs)``."""
    config = config or Config()
    block = {
        "up": (config.width, config.hidden),
        "bias": (config.hidden,),
        "down": (config.hidden, config.width),
    }
    x = jax.ShapeDtypeStruct((config.batch, config.width), jnp.float32)
    shapes = {f"block_{n}": dict(block) for n in range(config.blocks)}
    return training_args(shapes, x, x), {}


BATCH = partir.ManualPartition({"batch/0": 0, "batch/1": 0}, axis="B", name="BP")
MODEL = partir.ManualPartition({"params/*/up": 1}, axis="M", name="MP")
