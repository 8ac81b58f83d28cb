"""A stack of self-attention layers without MLPs, regression on its output, Adam.

Long sequences and narrow layers: memory and time go into the attention weights.
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

    layers: int = 2
    width: int = 128
    heads: int = 8
    head_dim: int = 16
    sequence: int = 256
    batch: int = 8


def attend(layer: dict[str, Array], x: Array) -> Array:
    """Softmax attention over the whole sequence."""
    q, k, v = (jnp.einsum("bsd,dhk->bhsk", x, layer[name]) for name in "qkv")
    scores = jnp.einsum("bhqk,bhsk->bhqs", q, k) * q.shape[-1] ** -0.5
    mixed = jnp.einsum("bhqs,bhsk->bhqk", jax.nn.softmax(scores, axis=-1), v)
    return jnp.einsum("bhsk,hkd->bsd", mixed, layer["o"])


def loss_fn(params: dict[str, Any], x: Array, y: Array) -> Array:
    """Mean squared error of the residual stack."""
    for layer in params.values():
        x = x + attend(layer, x)
    return jnp.mean((x - y) ** 2)


train_step = train_with(loss_fn)


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of ``train_step``'s arguments, as ``(args, kwargs)``."""
    config = config or Config()
    d, h, k = config.width, config.heads, config.head_dim
    layer = {"q": (d, h, k), "k": (d, h, k), "v": (d, h, k), "o": (h, k, d)}
    x = jax.ShapeDtypeStruct((config.batch, config.sequence, d), jnp.float32)
    shapes = {f"layer_{n}": dict(layer) for n in range(config.layers)}
    return training_args(shapes, x, x), {}


BATCH = partir.ManualPartition({"batch/0": 0, "batch/1": 0}, axis="B", name="BP")
MODEL = partir.ManualPartition(
    {"params/*/q": 1, "params/*/k": 1, "params/*/v": 1}, axis="M", name="MP"
)
