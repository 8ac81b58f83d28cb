"""Sums move through linear ops, and through nothing else."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from partir.spmd.rewrites.sums import merge_sums
from partir.spmd.rewrites.table import rewrite, scatter_reduced_slices
from tests.spmd.lowered import (
    B2M2,
    CONTRACTED,
    M2,
    ROWS,
    V,
    W,
    X,
    Y,
    lowered,
    steps,
)

pytestmark = pytest.mark.usefixtures("x64")


def test_a_sum_of_two_reductions_is_reduced_once() -> None:
    def two(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + y @ v

    case = lowered(two, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.steps.count("all_reduce M") == 2
    made = case.after(merge_sums)
    assert made == ["dot_general", "dot_general", "add", "all_reduce M"]


def test_a_sum_of_three_reductions_is_reduced_once() -> None:
    def three(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + (y @ v - x @ v)

    case = lowered(three, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.steps.count("all_reduce M") == 3
    made = case.after(merge_sums)
    assert made == [*["dot_general"] * 3, "subtract", "add", "all_reduce M"]


# What may stand between a reduction and the sum in which it meets another one.
LINEAR: dict[str, Callable[[Array], Array]] = {
    "transpose": lambda a: a.T,
    "reshape": lambda a: a.reshape(4, 16).reshape(8, 8),
    "scale": lambda a: a * 3.0,
    "divide": lambda a: a / 7.0,
    "negate": lambda a: -a,
    "reverse": lambda a: lax.rev(a, (0,)),
    "mask": lambda a: jnp.where(np.eye(8) > 0, a, jnp.zeros((8, 8))),
    "shift": lambda a: lax.pad(a, 0.0, ((1, -1, 0), (0, 0, 0))),
    "matrix product": lambda a: a @ np.triu(np.ones((8, 8))),
    "lookup": lambda a: a[np.array([3, 1, 1, 0, 7, 2, 2, 2])],
    "dynamic slice": lambda a: lax.dynamic_slice(a, (1, 0), (8, 8)),
}


LINEAR_NOT_SEEN: dict[str, Callable[[Array], Array]] = {
    "mask by a scalar": lambda a: jnp.where(np.arange(8) > 3, a, 0.0),
}


@pytest.mark.parametrize(
    "name",
    [
        *LINEAR,
        pytest.param(
            *LINEAR_NOT_SEEN,
        ),
    ],
)
def test_sums_meet_behind_linear_ops(name: str) -> None:
    def meet(x: Array, y: Array, w: Array, v: Array) -> Array:
        return {**LINEAR, **LINEAR_NOT_SEEN}[name](x @ w) + y @ v

    case = lowered(meet, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.steps.count("all_reduce M") == 2
    assert [s for s in case.after(merge_sums) if "all" in s] == ["all_reduce M"]


NOT_LINEAR: dict[str, Callable[[Array, Array], Array]] = {
    "tanh": lambda a, b: jnp.tanh(a) + b,
    "square": lambda a, b: a * a + b,
    "product of sums": lambda a, b: a * b,
    "matrix product of sums": lambda a, b: a @ b,
    "divide by": lambda a, b: 1.0 / a + b,
    "maximum": lambda a, b: jnp.maximum(a, b),
    "plus a constant": lambda a, b: (a + 1.0) @ (b + 1.0),
    "pad with ones": lambda a, b: jnp.pad(a, 1, constant_values=1.0)[:8, :8] + b,
    "choice of ones": lambda a, b: jnp.where(np.arange(8) > 3, a, 1.0) + b,
    "chosen by it": lambda a, b: jnp.where(a > 0, 1.0, 2.0) + b,
    "narrowed": lambda a, b: a.astype(jnp.float32) + b.astype(jnp.float32),
    "integer division": lambda a, b: a.astype(int) // 2 + b.astype(int),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_sums_stay_before_what_is_not_linear(name: str) -> None:
    def stay(x: Array, y: Array, w: Array, v: Array) -> Array:
        return NOT_LINEAR[name](x @ w, y @ v)

    case = lowered(stay, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.steps.count("all_reduce M") == 2
    assert case.after(merge_sums) == case.steps


def test_a_reduction_with_another_reader_stays() -> None:
    def both(x: Array, y: Array, w: Array, v: Array) -> tuple[Array, Array]:
        made = x @ w
        return made + y @ v, made

    case = lowered(both, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.after(merge_sums) == case.steps


def test_reductions_over_different_axes_stay() -> None:
    def two(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + y @ v

    tactics = [("B", {"x": 1}), ("M", {"y": 1})]
    case = lowered(two, X, Y, W, V, axes=B2M2, tactics=tactics)
    assert {"all_reduce B", "all_reduce M"} <= set(case.steps)
    assert case.after(merge_sums) == case.steps


def test_scattered_sums_meet_too() -> None:
    def two(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + (y @ v).T

    tactics = [("M", {"x": 1, "y": 1, "result0": 0})]
    case = lowered(two, X, Y, W, V, axes=M2, tactics=tactics)
    assert case.steps.count("all_reduce M") == 2
    scattered = case.after(scatter_reduced_slices)
    assert [s for s in scattered if "reduce" in s] == [
        "reduce_scatter 0 M",
        "reduce_scatter 1 M",
    ]
    made = case.after(scatter_reduced_slices, merge_sums)
    assert [s for s in made if "all" in s or "reduce" in s] == ["reduce_scatter 0 M"]


def test_a_sum_that_is_then_sliced_is_scattered() -> None:
    def two(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + y @ v

    case = lowered(two, X, Y, W, V, axes=M2, tactics=CONTRACTED, to=[ROWS])
    made = rewrite(case.spmd)
    assert steps(made) == ["dot_general", "dot_general", "add", "reduce_scatter 0 M"]


def test_what_is_made_smaller_is_reduced_afterwards() -> None:
    def smaller(x: Array, w: Array, v: Array) -> tuple[Array, ...]:
        return jnp.sum(x @ w, axis=0), (x @ v)[:2]

    case = lowered(smaller, X, W, V, axes=M2, tactics=[("M", {"x": 1})])
    made = case.after(merge_sums)
    assert made == [
        *("dot_general", "reduce", "all_reduce M"),
        *("dot_general", "slice", "all_reduce M"),
    ]


def test_a_sum_stays_before_an_op_whose_loop_has_its_axis() -> None:
    """The other operand is not the same on the whole group then."""

    def chain(x: Array, w: Array, v: Array) -> Array:
        return (x @ w) @ v

    case = lowered(chain, X, W, V, axes=M2, tactics=[("M", {"x": 1, "v": 1})])
    assert case.steps == ["dot_general", "all_reduce M", "dot_general"]
    assert case.after(merge_sums) == case.steps


def test_a_sum_stays_before_a_lookup_of_tiled_positions() -> None:
    def lookup(x: Array, w: Array, ids: Array) -> Array:
        return (x @ w).at[ids].get(mode="clip")

    ids = np.array([3, 1])
    case = lowered(lookup, X, W, ids, axes=M2, tactics=[("M", {"x": 1, "ids": 0})])
    assert case.steps[-1] == "gather"
    assert case.after(merge_sums) == case.steps


def test_a_dot_that_narrows_keeps_the_sum_before_it() -> None:
    """A reduction keeps the type in which the source program adds."""

    def narrow(x: Array, w: Array, v: Array) -> Array:
        made = lax.dot(x @ w, v, preferred_element_type=jnp.float32)
        return made[:1]

    x, w = np.round(X), np.round(W)
    case = lowered(narrow, x, w, np.round(V), axes=M2, tactics=[("M", {"x": 1})])
    assert case.after(merge_sums)[:2] == ["dot_general", "all_reduce M"]
