"""Alternating MLPs over tokens and over channels (MLP-Mixer), Adam.

Transposes between the two make some tilings move data, others not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir
from benchmarks.models.training import train_with, training_args


@dataclass(frozen=True)
class Config:
    """Sizes."""

    blocks: int = 3
    tokens: int = 64
    channels: int = 128
    hidden: int = 256
    batch: int = 16


def normal(x: Array) -> Array:
    """Zero mean and unit variance over the channels."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-6)


def mlp(layer: dict[str, Array], x: Array) -> Array:
    """Two matrices with a nonlinearity between them."""
    return jax.nn.gelu(x @ layer["up"]) @ layer["down"]


def loss_fn(params: dict[str, Any], x: Array, y: Array) -> Array:
    """Mean squared error of the mixed tokens."""
    for block in params.values():
        turned = jnp.swapaxes(normal(x), 1, 2)
        x = x + jnp.swapaxes(mlp(block["tokens"], turned), 1, 2)
        x = x + mlp(block["channels"], normal(x))
    return jnp.mean((x - y) ** 2)


train_step = train_with(loss_fn)


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of ``train_step``'s arguments, as ``(args, kwargs)``."""
    config = config or Config()
    tokens, channels, hidden = config.tokens, config.channels, config.hidden
    block = {
        "tokens": {"up": (tokens, hidden), "down": (hidden, tokens)},
        "channels": {"up": (channels, hidden), "down": (hidden, channels)},
    }
    x = jax.ShapeDtypeStruct((config.batch, tokens, channels), jnp.float32)
    shapes = {f"block_{n}": dict(block) for n in range(config.blocks)}
    return training_args(shapes, x, x), {}


BATCH = partir.ManualPartition({"batch/0": 0, "batch/1": 0}, axis="B", name="BP")
MODEL = partir.ManualPartition(
    {"params/*/tokens/up": 1, "params/*/channels/up": 1}, axis="M", name="MP"
)
