"""Right programs are proved, and no mistake in them, one of each kind that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import benchmarks.mutants.kinds
import benchmarks.mutants.moving
import benchmarks.mutants.placing  # noqa: F401  (kinds register themselves)
import partir
from benchmarks.mutants.__main__ import mistakes, verdict_of
from partir.frontend.device_local import read_device_local
from partir.verify import ReadSource

MESH = {"B": 4}


def shape(*sizes: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def skewed(x: jax.Array) -> jax.Array:
    """Rows and columns merged, and split at other places."""
    padded = jnp.pad(x, ((0, 0), (1, 0)))
    return padded.reshape(5, 8)[1:].reshape(8, 4)


def stretched(x: jax.Array) -> jax.Array:
    twice = jnp.repeat(jnp.sin(x), 2, 0)
    return twice[1:] - twice[:-1]


def rolled_in_blocks(x: jax.Array) -> jax.Array:
    blocks = jnp.sin(x).reshape(4, 4, 2).transpose(2, 0, 1)
    return jnp.roll(blocks.reshape(2, 16) @ jnp.ones((16, 16)), 2, 1)


def token_first(x: jax.Array, token: jax.Array) -> jax.Array:
    rows = jnp.sin(x.T).reshape(-1)
    return jnp.concatenate([token, rows])[:-3] * 2


def summed_windows(x: jax.Array) -> jax.Array:
    flat = jnp.cos(x).reshape(-1)
    return lax.reduce_window(flat, 0.0, lax.add, (3,), (1,), "SAME")


def blocks(x: jax.Array) -> jax.Array:
    """Every block behind the one before it."""
    wide = x.reshape(8, 2, 2)
    earlier = jnp.pad(wide[:-1], ((1, 0), (0, 0), (0, 0)))
    return jnp.concatenate([earlier, wide], 1)


def last_row(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.grad(lambda x: jnp.sin(jnp.tanh(x @ w)[-1]).sum())(x)


def counted(x: jax.Array) -> jax.Array:
    """Devices count further than there are rows."""
    return x[:13] * jnp.cos(jnp.arange(13.0))[:, None]


def places(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.argmax(x, 1), jnp.argmin(jnp.sin(x), 1)


def row_replaced(x: jax.Array, new: jax.Array, at: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(x, new, (at, 0)) * 2


def row_read(x: jax.Array, at: jax.Array) -> jax.Array:
    return jnp.sin(lax.dynamic_slice(x, (at, 0), (1, 2)))


def interleaved(x: jax.Array) -> jax.Array:
    """Pairs that are turned, as rotary embeddings turn them."""
    return jnp.stack([-x[:, 1::2], x[:, 0::2]], -1).reshape(x.shape)


def of_nothing(x: jax.Array) -> jax.Array:
    return x + jnp.sum(x[:, :0], 1, keepdims=True)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, int]]] = {
    "interleaved": (interleaved, (shape(2, 16),), {"x": 1}),
    "skewed": (skewed, (shape(8, 4),), {"x": 0}),
    "stretched": (stretched, (shape(16, 2),), {"x": 0}),
    "rolled in blocks": (rolled_in_blocks, (shape(16, 2),), {"x": 0}),
    "token first": (token_first, (shape(2, 8), shape(1)), {"x": 1}),
    "blocks": (blocks, (shape(16, 2),), {"x": 0}),
    "last row": (last_row, (shape(8, 2), shape(2, 2)), {"x": 0}),
    "counted": (counted, (shape(16, 2),), {"x": 0}),
    "places of the largest": (places, (shape(2, 16),), {"x": 1}),
    "largest so far": (lambda x: lax.cummax(x, 1), (shape(2, 8),), {"x": 1}),
    "a row replaced": (
        row_replaced,
        (shape(16, 2), shape(1, 2), shape(dtype="int32")),
        {"x": 0},
    ),
    "a row read": (row_read, (shape(16, 2), shape(dtype="int32")), {"x": 0}),
    "of nothing": (of_nothing, (shape(8, 2),), {"x": 0}),
    "summed windows": (summed_windows, (shape(8, 2),), {"x": 0}),
}


def mistakes_missed(p: partir.Partitioned) -> list[tuple[str, str]]:
    """Mistakes in a device-local program that are proved, and give other numbers."""
    local, source = read_device_local(p.stablehlo()), ReadSource(p.program)
    return [
        (kind, where)
        for kind, where, mutant in mistakes(local, 0, 1)
        if verdict_of(p, local, mutant, source) == "missed"
    ]


@pytest.mark.parametrize("name", CASES)
def test_what_is_right_is_proved_and_no_mistake(name: str) -> None:
    fn, args, tiles = CASES[name]
    tactic = partir.ManualPartition(tiles, "B")
    p = partir.partition(fn, MESH, [tactic], args=args)
    assert not p.verify().not_proved
    assert mistakes_missed(p) == []


def test_a_reducer_along_several_dimensions_is_left_as_it_is() -> None:
    """What is no reduction of reductions of tiles is not read as one."""
    axes = (0, 1)

    def largest(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        places = lax.broadcasted_iota("int32", x.shape, 1)
        start = (jnp.float32(-jnp.inf), jnp.int32(0))

        def step(a: Any, b: Any) -> Any:
            first = a[0] >= b[0]
            return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

        return lax.reduce((x, places), start, step, axes)

    tactic = partir.ManualPartition({"x": 1}, "B")
    p = partir.partition(largest, MESH, [tactic], args=(shape(2, 16),))
    assert "can't be read" not in str(p.proof())
