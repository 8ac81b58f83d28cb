"""Small functions in which every kind of loop and region occurs, with arguments.

What counts once is never an identity, and some indices are out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from benchmarks.models import transformer


def mlp_grad(params: dict[str, Array], x: Array, y: Array) -> Any:
    """Loss and gradients of two layers."""

    def loss(params: dict[str, Array]) -> Array:
        hidden = jnp.tanh(x @ params["w1"] + params["b1"])
        return jnp.mean((hidden @ params["w2"] - y) ** 2)

    return jax.value_and_grad(loss)(params)


def scan_layers(x: Array, weights: Array) -> tuple[Array, Array]:
    """A `while` with a carry, stacked inputs and stacked outputs."""

    def layer(carry: Array, weight: Array) -> tuple[Array, Array]:
        carry = jnp.tanh(carry @ weight)
        return carry, jnp.max(carry, axis=1)

    return lax.scan(layer, x, weights)


def branches(index: Array, x: Array, y: Array) -> Array:
    """A `case` whose branches read outer values."""
    return lax.switch(
        index,
        [
            lambda x: jnp.sin(x) @ y,
            lambda x: x @ y - 1,
            lambda x: jnp.sum(x) + x @ jnp.cos(y),
        ],
        x,
    )


def scatters(table: Array, indices: Array, updates: Array) -> tuple[Array, ...]:
    """Scatters into non-zeros: sum, maximum, and a product of one row each."""
    return (
        table.at[indices].add(updates, mode="drop"),
        table.at[indices].max(updates, mode="drop"),
        table.at[:, indices[:2]].multiply(updates[: len(table), :2], mode="drop"),
        table[indices],
    )


def reductions(x: Array, n: Array) -> tuple[Array, ...]:
    """Reductions whose initial values matter, over floats, integers and booleans."""
    return (
        lax.reduce(x, x.dtype.type(3), lax.add, (0,)),
        lax.reduce(x, x.dtype.type(1.5), lax.mul, (1,)),
        lax.reduce(x, x.dtype.type(0.25), lax.max, (0, 1)),
        lax.reduce(x, x.dtype.type(-0.25), lax.min, (0,)),
        lax.reduce(n, n.dtype.type(-7), lax.add, (0, 1)),
        lax.reduce(n, n.dtype.type(2), lax.max, (1,)),
        lax.reduce(n > 2, np.bool_(False), lax.bitwise_or, (0,)),
        lax.reduce(n > -3, np.bool_(True), lax.bitwise_and, (1,)),
        lax.reduce(n, n.dtype.type(5), lax.bitwise_or, (0,)),
    )


def extremes(x: Array) -> tuple[Array, ...]:
    """Ops with several results, and ones that keep a dimension whole."""
    values, order = lax.sort_key_val(x, lax.broadcasted_iota(jnp.int32, x.shape, 1))
    return jnp.argmax(x, axis=1), jnp.argmin(x, axis=0), values, order


def masked(q: Array, k: Array) -> Array:
    """A causal mask of iotas, whose tiles count from their offsets."""
    scores = q @ k.T
    rows = lax.broadcasted_iota(jnp.int32, scores.shape, 0)
    columns = lax.broadcasted_iota(jnp.int32, scores.shape, 1)
    return jax.nn.softmax(jnp.where(rows >= columns, scores, -1e30), axis=-1)


def moves(x: Array) -> tuple[Array, ...]:
    """Data movement: reshapes in both directions, pad, slice, concatenate, reverse."""
    heads = x.reshape(x.shape[0], 4, -1).transpose(1, 0, 2)
    joined = jnp.concatenate([heads, heads[:, :, ::-1] * 2], axis=2)
    return (
        joined.reshape(-1),
        jnp.pad(x, ((1, 2), (0, 0)))[1:, :],
        lax.rev(x, (1,)) + jnp.asarray(np.arange(x.size).reshape(x.shape) % 7),
        lax.dynamic_update_slice(x, x[:1] * 3, (2, 0)),
        lax.dynamic_slice(x, (1, 3), (2, x.shape[1])),
    )


def train_step(params: Any, opt_state: Any, tokens: Array, targets: Array) -> Any:
    """One layer's training step with Adam."""
    return transformer.train_step(params, opt_state, tokens, targets)


CONFIG = transformer.Config(
    layers=1,
    width=8,
    heads=4,
    head_dim=4,
    hidden=16,
    vocab=16,
    sequence=8,
    batch=8,
    dtype="float64",
)


def _floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def _ints(seed: int, low: int, high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape, np.int32)


def _params() -> dict[str, np.ndarray]:
    return {"w1": _floats(2, 16, 8), "b1": _floats(3, 8), "w2": _floats(4, 8, 16)}


def _train_args() -> tuple[Any, ...]:
    state = transformer.init(CONFIG, jax.random.key(0))
    return (*state, *transformer.example_batch(CONFIG, jax.random.key(1)))


ARGUMENTS: dict[Callable[..., Any], Callable[[], tuple[Any, ...]]] = {
    mlp_grad: lambda: (_params(), _floats(0, 16, 16), _floats(1, 16, 16)),
    scan_layers: lambda: (_floats(0, 8, 8), _floats(1, 3, 8, 8)),
    branches: lambda: (np.int32(2), _floats(0, 8, 8), _floats(1, 8, 8)),
    scatters: lambda: (_floats(0, 8, 8), _ints(1, -9, 12, 16), _floats(2, 16, 8)),
    reductions: lambda: (_floats(0, 8, 8), _ints(1, -5, 6, 8, 8)),
    extremes: lambda: (np.round(_floats(0, 8, 8), 1),),
    masked: lambda: (_floats(0, 8, 8), _floats(1, 8, 8)),
    moves: lambda: (_floats(0, 8, 16),),
    train_step: _train_args,
}
"""Arguments for each function; call inside 64-bit mode."""
