"""Fused projections: the weight moves across tiles, not the activations."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir.spmd.program import EXCHANGE
from partir.spmd.rewrites.narrow_windows import narrow_windows
from partir.spmd.rewrites.sweep import collectives_of, run_pass

Function = Callable[[Array, Array, Array], Array]
X = np.arange(64 * 4).reshape(64, 4) % 11 - 5
W = np.arange(4 * 24).reshape(4, 24) % 7 - 3
B = np.arange(24) % 5


def split(p: Array) -> Array:
    q, k, v = jnp.split(p, 3, -1)
    return (q + k) * v


NARROWED: dict[str, Function] = {
    "q, k, v": lambda x, w, b: split(x @ w),
    "with a bias": lambda x, w, b: split(x @ w + b),
    "scaled": lambda x, w, b: split(2 * (x @ w) - b),
    "a part of it": lambda x, w, b: (x @ w)[:, 4:12],
}
AS_THEY_ARE: dict[str, Function] = {
    "read whole too": lambda x, w, b: split(p := x @ w) + jnp.sum(p, 1, keepdims=True),
    "a long weight": lambda x, w, b: split(x.T[:, :4] @ w),
    "in two windows": lambda x, w, b: (p := x @ w)[:, 1:] + p[:, :-1],
}


def partitioned(function: Function, dtype: str) -> partir.Partitioned:
    args = [a.astype(dtype) for a in (X, W, B)]
    tactic = partir.ManualPartition({"w": 1}, axis="X")
    record = partir.partition(function, {"X": 4}, [tactic], args=args)
    got, want = record.compile()(*args), jax.jit(function)(*args)
    np.testing.assert_array_equal(got, want)
    return record


def exchanged(record: partir.Partitioned) -> set[int]:
    """Rows, but for those that are split, of what is exchanged."""
    spmd = record.spmd
    moves = collectives_of(op for op, _ in spmd.walk())
    return {
        spmd.types[move.operand].shape[0] for move in moves if move.kind == EXCHANGE
    }


@pytest.mark.identity("rowwise")
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("name", NARROWED)
def test_narrowed(name: str, dtype: str) -> None:
    """To the bit: no row is computed otherwise."""
    record = partitioned(NARROWED[name], dtype)
    assert exchanged(record) <= {1, 4}  # of the weight, of a bias
    assert run_pass(record.spmd, narrow_windows) is record.spmd


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_stays_as_it_is(name: str) -> None:
    record = partitioned(AS_THEY_ARE[name], "int32")
    rows = 4 if name == "a long weight" else 64
    assert exchanged(record) == {rows}


@pytest.mark.identity("rowwise")
def test_numbers_that_are_not_finite_stay_in_their_columns() -> None:
    def function(x: Array, w: Array) -> Array:
        return split(x @ w)

    x, w = X.astype(np.float32), W.astype(np.float32)
    w[0, 5], w[1, 13], w[2, 20] = np.nan, np.inf, -np.inf
    tactic = partir.ManualPartition({"w": 1}, axis="X")
    record = partir.partition(function, {"X": 4}, [tactic], args=(x, w))
    np.testing.assert_array_equal(record.compile()(x, w), jax.jit(function)(x, w))
    assert exchanged(record) == {4}


def test_tiles_that_are_short() -> None:
    """Over two axes, sizes that don't divide."""

    def function(x: Array, w: Array) -> Array:
        p = jnp.sin(x @ w[:, 1:])
        return p[:, :11] * p[:, 11:22]

    x, w = X.astype(np.float32), W.astype(np.float32)
    tactics = [partir.ManualPartition({"w": 1}, axis=axis) for axis in "XY"]
    record = partir.partition(function, {"X": 2, "Y": 3}, tactics, args=(x, w))
    np.testing.assert_allclose(
        record.compile()(x, w), jax.jit(function)(x, w), rtol=1e-5, atol=1e-6
    )
