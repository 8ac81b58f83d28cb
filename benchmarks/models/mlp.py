"""A deep MLP on vectors, mean squared error, Adam.

Wide matrices and little else: what a partition does to it is easy to foresee. On one
axis of n devices, the best that can be done is known. No device may repeat another's
products, or arithmetic takes longer than total / n; so every product is split, along
rows (batch), along the hidden dimension, or along the width.

- Splitting rows sums every gradient, twice ``width * hidden`` numbers per block,
  whatever the batch. Reduce-scatter them and gather the updated parameters, and Adam's
  arithmetic is split as well, for the same bytes (Z2): BP+Z2.
- Splitting the hidden dimension makes ``up`` a split by columns and ``down`` one by
  rows, with nothing to do between them: one sum of ``batch * width`` numbers per block
  forward and one backward, and every parameter's update is split (MP). Splitting the
  width sums ``batch * hidden`` instead, which is more wherever hidden > width.

So MP is best where the batch is much smaller than ``hidden`` (``Config.wide``), BP+Z2
where it is much larger (``Config.tall``); BP+Z3, which gathers parameters twice, comes
to the same where all gathers hide behind arithmetic.
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

    @classmethod
    def wide(cls, batch: int = 512) -> Config:
        """Large matrices, small batch: MP is best. To be traced, not to be run."""
        return cls(blocks=8, width=8192, hidden=65536, batch=batch)

    @classmethod
    def tall(cls, batch: int = 1048576) -> Config:
        """Small matrices, large batch: BP+Z2 is best. To be traced, not to be run."""
        return cls(blocks=8, width=2048, hidden=8192, batch=batch)


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
