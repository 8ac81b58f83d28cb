"""Partial results, joined by the op itself: argmax, any reducer, top_k.

Each mesh runs many functions in one program, since compiling is what takes time. The
sequential meaning, where what lies behind the end of a tile is nan, is compared too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from partir.spmd.stablehlo.sequential import sequential_text
from tests.rules.tiles import run as run_text

pytestmark = pytest.mark.usefixtures("x64")

Pair = tuple[Array, Array]
MESHES = [{"X": 2, "Y": 3}]


def affine(a: Pair, b: Pair) -> Pair:
    """``a`` first, then ``b``: associative, and the order matters."""
    return a[0] * b[0], b[0] * a[1] + b[1]


def log_sum(a: Pair, b: Pair) -> Pair:
    """The maximum, and the sum of exponentials beside it."""
    top = lax.max(a[0], b[0])
    return top, a[1] * lax.exp(a[0] - top) + b[1] * lax.exp(b[0] - top)


def reduced(
    body: Callable[[Pair, Pair], Pair], start: tuple[float, float], *dims: int
) -> Callable[[Array], Any]:
    def apply(x: Array) -> Any:
        y = jnp.flip(x, -1) * 0.5 + 0.25
        starts = tuple(np.asarray(number, x.dtype) for number in start)
        return lax.reduce((x, y), starts, body, dims or (1,))

    return apply


def from_argument(x: Array) -> Any:
    start = (x[0, 0, 0] * 0, x[0, 0, 0] + 1)
    return lax.reduce((x, x * x), start, affine, (1,))


def bits(x: Array) -> list[Array]:
    whole = (x * 64).astype(jnp.int32)
    return [
        lax.reduce(whole, np.int32(start), op, (1,))
        for op, start in ((lax.bitwise_and, -1), (lax.bitwise_xor, 5))
    ]


def least(x: Array) -> Array:
    """The least whole number, which stands behind the end of short tiles as well."""
    return jnp.where(x < 0.5, -128, 1).astype(jnp.int8).swapaxes(1, 2)


def limited(x: Array) -> Any:
    """A reducer with a number of its own."""
    return lax.reduce(
        x, np.float64(-5), lambda a, b: lax.min(lax.max(a, b), 0.75), (1,)
    )


FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "argmax": lambda x: jnp.argmax(x, 1),
    "argmin": lambda x: jnp.argmin(x, 1),
    "of a part": lambda x: (jnp.argmax(x[:, 1:], 1), jnp.argmin(x[:, :10], 1)),
    "of integers": lambda x: jnp.argmax((x * 4).astype(jnp.int32), 1),
    "neutral": reduced(affine, (1.0, 0.0)),
    "absorbing": reduced(affine, (0.0, 5.0)),
    "not neutral": reduced(log_sum, (0.5, 2.0)),
    "two dimensions": reduced(affine, (2.0, 1.0), 1, 2),
    "minor dimension first": reduced(affine, (2.0, 1.0), 0, 1),
    "of a part, not neutral": lambda x: reduced(affine, (0.0, 5.0))(x[:, :10]),
    "from an argument": from_argument,
    "bits": bits,
    "limited": limited,
    "largest": lambda x: lax.top_k(x.swapaxes(1, 2), 3),
    "many": lambda x: lax.top_k(x.swapaxes(1, 2), 23),
    "largest of a part": lambda x: lax.top_k(x[:, 1:11].swapaxes(1, 2), 5),
    "nearly all of the least": lambda x: lax.top_k(least(x[:, :10]), 9),
    "used": lambda x: jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1),
}


def values() -> np.ndarray:
    """Few different numbers, so that many are equal."""
    return np.random.default_rng(0).integers(-3, 4, (2, 24, 2)) / 4


def odd_values() -> np.ndarray:
    """Rows of nothing but infinity, nan of both signs, zeros of both signs."""
    x = values()
    x[0, :, 0] = -np.inf
    x[0, 5::7, 1] = np.nan
    x[1, ::3, 0] = -np.nan
    x[1, 1::3, 0] = -0.0
    x[1, 10:, 1] = np.inf
    return x


def partitioned(
    function: Callable[..., Any], mesh: dict[str, int], *inputs: np.ndarray
) -> partir.Partitioned:
    """Partitioned along the middle dimension over all axes, and compared."""
    tactics = [partir.ManualPartition({"x": 1}, axis=axis) for axis in mesh]
    record = partir.partition(function, mesh, tactics, args=(inputs[0],))
    program, compiled = record.program, record.compile()
    types = [program.types[port.value] for port in program.results]
    text = sequential_text(record.steps[-1].state)
    for x in inputs:
        want = jax.tree.leaves(jax.jit(function)(x))
        for got in (jax.tree.leaves(compiled(x)), run_text(text, types, [x])):
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    return record


@pytest.mark.identity("joined", "largest")
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_partial_results_are_joined(mesh: dict[str, int]) -> None:
    def all_of_them(x: Array) -> Any:
        return [f(x) for f in FUNCTIONS.values()]

    record = partitioned(all_of_them, mesh, values())
    assert "#join" in record.core_text()
    assert "all_gather join" in record.spmd_text()


@pytest.mark.identity("joined", "largest")
@pytest.mark.parametrize("mesh", [{"X": 3}], ids=str)
def test_numbers_that_are_none_and_zeros(mesh: dict[str, int]) -> None:
    names = ("argmax", "argmin", "of a part", "largest", "many", "largest of a part")

    def some(x: Array) -> Any:
        return [FUNCTIONS[name](x) for name in names]

    partitioned(some, mesh, odd_values())


def test_gradients_of_what_was_found() -> None:
    """Through the largest few and the largest one, tiled as the argument is."""

    def loss(x: Array) -> Array:
        best, _ = lax.top_k(x.swapaxes(1, 2), 5)
        found = jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1)
        return jnp.sum(jnp.sin(best)) + jnp.sum(jnp.cos(found))

    record = partitioned(jax.grad(loss), {"X": 2, "Y": 3}, values())
    assert record.spmd_text().count("all_gather join") == 4
