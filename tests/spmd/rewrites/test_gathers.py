"""Gathers of narrow forms, and of one value twice."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from partir.spmd.program import Compute, Control, SpmdOp
from partir.spmd.rewrites.gathers import merge_gathers
from partir.spmd.rewrites.siblings import Siblings
from partir.spmd.rewrites.sweep import collectives_of, run_pass
from partir.spmd.rewrites.table import rewrite
from partir.spmd.rewrites.tie_gathers import tie_repeated_gathers
from tests.spmd.lowered import (
    B2M2,
    B4M2,
    M2,
    ROWS,
    WHOLE,
    W,
    X,
    Y,
    lowered,
    steps,
)

pytestmark = pytest.mark.usefixtures("x64")


# Narrow forms

NARROW = X.astype(np.float32)


def test_the_narrow_form_is_gathered() -> None:
    def widen(x: Array) -> Array:
        return x.astype(jnp.float64)

    case = lowered(widen, NARROW, axes=M2, tactics=[("M", {"x": 0})], to=[WHOLE])
    assert steps(rewrite(case.spmd)) == ["all_gather 0 M", "convert"]


def test_gathers_of_two_dimensions_both_come_before_the_convert() -> None:
    def widen(x: Array) -> Array:
        return x.astype(jnp.float64)

    tactics = [("B", {"x": 0}), ("M", {"x": 1})]
    case = lowered(widen, NARROW, axes=B4M2, tactics=tactics, to=[WHOLE])
    assert steps(rewrite(case.spmd)) == ["all_gather 0 B", "all_gather 1 M", "convert"]


def test_a_gather_of_one_axis_leaves_the_convert_tiled_on_the_other() -> None:
    def widen(x: Array) -> Array:
        return x.astype(jnp.float64)

    tactics = [("B", {"x": 0}), ("M", {"x": 0})]
    to = [(("B",), ())]
    case = lowered(widen, NARROW, axes=B4M2, tactics=tactics, to=to)
    assert steps(rewrite(case.spmd)) == ["all_gather 0 M", "convert"]


def test_a_narrowing_convert_stays_before_the_gather() -> None:
    def narrow(x: Array) -> Array:
        return x.astype(jnp.float32)

    case = lowered(narrow, X, axes=M2, tactics=[("M", {"x": 0})], to=[WHOLE])
    assert steps(rewrite(case.spmd)) == ["convert", "all_gather 0 M"]


def test_a_narrowing_convert_comes_before_the_gather() -> None:
    def narrow(x: Array, w: Array) -> Array:
        return x @ w.astype(jnp.float32)

    case = lowered(
        narrow, NARROW, W, axes=M2, tactics=[("M", {"w": 0})], gathered={"w": "M"}
    )
    assert steps(rewrite(case.spmd)) == ["convert", "all_gather 0 M", "dot_general"]


def test_a_wide_value_with_another_reader_is_made_twice() -> None:
    def both(x: Array) -> tuple[Array, Array]:
        wide = x.astype(jnp.float64)
        return wide, jnp.sin(wide)

    tactics = [("M", {"x": 0})]
    case = lowered(both, NARROW, axes=M2, tactics=tactics, to=[WHOLE, ROWS])
    made = steps(rewrite(case.spmd))
    assert sorted(made) == ["all_gather 0 M", "convert", "convert", "sine"]


# merge_gathers

TILED = {"tactics": [("M", {"w": 0})], "axes": M2}
GATHERED = {**TILED, "gathered": {"w": "M"}}


def test_siblings_share_a_gather() -> None:
    def siblings(x: Array, y: Array, w: Array) -> tuple[Array, Array]:
        return x @ w, y @ w

    case = lowered(siblings, X, Y, W, **GATHERED)
    assert case.steps == ["all_gather 0 M", "dot_general"] * 2
    made = case.after(merge_gathers)
    assert made == ["all_gather 0 M", "dot_general", "dot_general"]


def test_siblings_whose_results_are_read_later_share_a_gather() -> None:
    def siblings(x: Array, y: Array, w: Array) -> Array:
        left, right = x @ w, y @ w
        return jnp.sin(left) * jnp.cos(right)

    case = lowered(siblings, X, Y, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers).count("all_gather 0 M") == 1


def test_equal_values_share_a_gather() -> None:
    """What is computed twice is moved once, and computed once."""

    def twice(w: Array) -> tuple[Array, ...]:
        return tuple(jnp.exp(w - jnp.max(w, 1, keepdims=True)) for _ in range(2))

    case = lowered(twice, W, **TILED, to=[WHOLE, WHOLE])
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers).count("all_gather 0 M") == 1
    assert steps(rewrite(case.spmd)).count("exponential") == 1


def test_values_that_differ_do_not_share_a_gather() -> None:
    def differ(w: Array) -> tuple[Array, ...]:
        return jnp.max(w, 1), jnp.min(w, 1), jnp.max(w + 1, 1)

    case = lowered(differ, W, **TILED, to=[((),)] * 3)
    assert case.steps.count("all_gather 0 M") == 3
    assert case.after(merge_gathers) == case.steps


def test_order_alone_makes_no_second_gather() -> None:
    """A product that only waits for the other is its sibling."""

    def in_turn(x: Array, y: Array, w: Array) -> tuple[Array, Array]:
        first = x @ w
        y, _ = lax.optimization_barrier((y, first))
        return first, y @ w

    case = lowered(in_turn, X, Y, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers).count("all_gather 0 M") == 1
    ordered = run_pass(case.spmd, tie_repeated_gathers)
    assert any(op.after >= 0 for op in collectives_of(ordered.body.ops))
    assert steps(run_pass(ordered, merge_gathers)).count("all_gather 0 M") == 1


def test_forward_and_backward_gather_each() -> None:
    def chain(x: Array, w: Array) -> Array:
        return lax.dot_general(jnp.tanh(x @ w), w, (((1,), (1,)), ((), ())))

    case = lowered(chain, X, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers) == case.steps


def test_forward_and_backward_gather_each_if_one_is_transposed() -> None:
    def chain(x: Array, w: Array) -> Array:
        return jnp.tanh(x @ w) @ w.T

    case = lowered(chain, X, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers) == case.steps


def test_a_gather_is_not_kept_past_a_peak_of_memory() -> None:
    def peak(x: Array, y: Array, w: Array) -> tuple[Array, ...]:
        wide = jnp.tile(x, (1, 16))
        return x @ w, jnp.sum(jnp.sin(wide), axis=1), y @ w

    case = lowered(peak, X, Y, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers) == case.steps


def test_a_peak_at_a_use_itself_does_not_matter() -> None:
    def peak(x: Array, y: Array, w: Array) -> tuple[Array, ...]:
        return jnp.sum(jnp.sin(jnp.tile(x, (16, 1))) @ w, axis=0), y @ w

    case = lowered(peak, X, Y, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers).count("all_gather 0 M") == 1


def test_a_peak_elsewhere_leaves_room() -> None:
    """Between the uses more is alive than at them, but less than somewhere else."""

    def peak(x: Array, y: Array, w: Array) -> tuple[Array, ...]:
        most = jnp.sum(jnp.sin(jnp.tile(x, (1, 64))), axis=1)
        return x @ w, jnp.sum(jnp.sin(jnp.tile(x, (1, 16))), axis=1), y @ w, most

    case = lowered(peak, X, Y, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers).count("all_gather 0 M") == 1


def test_siblings_are_found_in_one_sweep() -> None:
    """As a walk from each move on finds them, pair by pair."""

    def chains(x: Array, y: Array, w: Array) -> Array:
        def loss(w: Array) -> Array:
            first = jnp.tanh(x @ w)
            second, waits = lax.optimization_barrier((y @ w, first))
            return jnp.sum(jnp.sin((first @ w) * second @ w.T) + waits)

        return jax.grad(loss)(w)

    ops = lowered(chains, X, Y, W, **GATHERED).spmd.body.ops
    last = {v: place for place, op in enumerate(ops) for v in op.results}
    last |= {v: place for place, op in enumerate(ops) for v in op.operands}
    moves = [op.result for op in collectives_of(ops) if op.kind == "all_gather"]
    siblings = Siblings(ops, moves, last)
    found = {(a, b): siblings.are(a, b) for a, b in itertools.combinations(moves, 2)}
    assert set(found.values()) == {True, False}
    assert found == {pair: _are_siblings(ops, *pair) for pair in found}


def _are_siblings(ops: Sequence[SpmdOp], first: int, second: int) -> bool:
    """Whether no reader of the second, in any form, needs a product of the first."""
    held, forms, products = {first}, {second}, set[int]()
    for op in ops:
        if isinstance(op, Control):  # a barrier
            for read, made in zip(op.operands, op.results, strict=True):
                for known in (held, forms, products):
                    known.update({made} if read in known else ())
            continue
        if forms.intersection(op.operands) and products.intersection(op.operands):
            return False
        if op.operands and forms.issuperset(op.operands):
            forms.update(op.results)
        if products.intersection(op.operands):
            products.update(op.results)
        elif held.intersection(op.operands):
            multiplies = (
                isinstance(op, Compute) and op.nest.signature.name == "dot_general"
            )
            (products if multiplies else held).update(op.results)
    return True


def test_what_is_made_of_a_value_and_the_value_itself_share_a_gather() -> None:
    """Unlike a product with it: between these there is little to keep it for."""

    def centred(w: Array) -> Array:
        return w - jnp.max(w, axis=0)

    case = lowered(centred, W, **GATHERED, to=[WHOLE])
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers).count("all_gather 0 M") == 1


def test_gathers_over_different_axes_stay() -> None:
    def siblings(x: Array, y: Array, w: Array) -> tuple[Array, Array]:
        return x @ w, jnp.sin(w)

    tactics = [("B", {"w": 0}), ("M", {"w": 0})]
    to = [WHOLE, (("B",), ())]
    case = lowered(siblings, X, Y, W, axes=B2M2, tactics=tactics, to=to)
    assert case.after(merge_gathers) == case.steps
