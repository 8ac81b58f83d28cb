"""Scattered slices, dead ops, and properties of all collective rewrites."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import partir.spmd
from partir.mesh import Mesh
from partir.partition.state import State
from partir.spmd.preparations.authors_barriers import drop_barriers
from partir.spmd.preparations.prepare import PREPARATIONS
from partir.spmd.program import Control
from partir.spmd.rewrites.sweep import run_pass
from partir.spmd.rewrites.table import (
    PASSES,
    drop_dead,
    rewrite,
    scatter_reduced_slices,
)
from tests import functions
from tests.functions import ARGUMENTS
from tests.programs import partition, program_of
from tests.spmd.lowered import (
    B2M2,
    B4M2,
    M2,
    ROWS,
    WHOLE,
    W,
    X,
    assert_same,
    at_home,
    lowered,
    steps,
)
from tests.spmd.stablehlo.test_sequential import CASES as SCHEDULES, entered_at_random

pytestmark = pytest.mark.usefixtures("x64")


PREPARED = [*(one for _, _, one in PREPARATIONS), drop_barriers]


def test_every_rewrite_is_a_pass() -> None:
    """One that is neither in `PASSES` nor in `PREPARATIONS` has no effect."""
    passes = [*PASSES, *PREPARED]
    modules = list(pkgutil.walk_packages(partir.spmd.__path__, "partir.spmd."))
    assert modules
    for found in modules:
        module = importlib.import_module(found.name)
        for name, function in vars(module).items():
            if "rewrite:\n" in (getattr(function, "__doc__", None) or ""):
                assert function in passes, f"{found.name}: {name}"


# scatter_reduced_slices


def product(x: Array, w: Array) -> Array:
    return x @ w


def test_a_reduced_slice_is_scattered() -> None:
    case = lowered(product, X, W, axes=M2, tactics=[("M", {"x": 1})], to=[ROWS])
    assert case.steps == ["dot_general", "all_reduce M", "all_slice 0 M"]
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "reduce_scatter 0 M"]


def test_axes_that_are_not_sliced_are_still_reduced() -> None:
    tactics = [("B", {"x": 1}), ("M", {"x": 1})]
    case = lowered(product, X, W, axes=B4M2, tactics=tactics, to=[ROWS])
    assert case.steps == ["dot_general", "all_reduce B M", "all_slice 0 M"]
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "reduce_scatter 0 M", "all_reduce B"]


def test_axes_that_are_not_reduced_are_sliced_first() -> None:
    case = lowered(
        product, X, W, axes=B4M2, tactics=[("M", {"x": 1})], to=[(("B", "M"), ())]
    )
    assert case.steps == ["dot_general", "all_reduce M", "all_slice 0 B M"]
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "all_slice 0 B", "reduce_scatter 0 M"]


@pytest.mark.parametrize("axes", [("B", "M"), ("M", "B")])
def test_scattering_over_two_axes_keeps_their_order(axes: tuple[str, str]) -> None:
    tactics = [("B", {"x": 1}), ("M", {"x": 1})]
    case = lowered(product, X, W, axes=B4M2, tactics=tactics, to=[(axes, ())])
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", f"reduce_scatter 0 {' '.join(axes)}"]


def test_slices_of_two_dimensions_are_both_scattered() -> None:
    tactics = [("B", {"x": 1}), ("M", {"x": 1})]
    to = [(("M",), ("B",))]
    case = lowered(product, X, W, axes=B2M2, tactics=tactics, to=to)
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "reduce_scatter 0 M", "reduce_scatter 1 B"]


@pytest.mark.parametrize("reduce", [jnp.max, jnp.min, jnp.prod, jnp.any, jnp.all])
def test_other_monoids_are_scattered_too(reduce: Callable[..., Array]) -> None:
    def reduced(x: Array) -> Array:
        return reduce(x, axis=1)

    x = X > 0.5 if reduce in (jnp.any, jnp.all) else X
    case = lowered(reduced, x, axes=M2, tactics=[("M", {"x": 1})], to=[(("M",),)])
    assert case.after(scatter_reduced_slices)[-1] == "reduce_scatter 0 M"


def test_a_reduction_that_is_read_elsewhere_stays() -> None:
    def twice(x: Array, w: Array) -> tuple[Array, Array]:
        made = x @ w
        return made, jnp.sin(made)

    tactics = [("M", {"x": 1})]
    case = lowered(twice, X, W, axes=M2, tactics=tactics, to=[ROWS, WHOLE])
    assert "all_slice 0 M" in case.steps
    assert case.after(scatter_reduced_slices) == case.steps


# drop_dead


@pytest.mark.identity("unread")
def test_what_nothing_reads_is_left_out() -> None:
    def several(x: Array, w: Array) -> tuple[Array, Array]:
        return jnp.sin(x), jnp.cos(x @ w)

    case = lowered(several, X, W, axes=M2, tactics=[("M", {"x": 1})])
    assert "all_reduce M" in case.steps
    body = replace(case.spmd.body, results=case.spmd.body.results[:1])
    kept = drop_dead(replace(case.spmd, body=body))
    assert steps(kept) == ["sine"]


def test_dead_ops_inside_a_loop_are_left_out() -> None:
    def loop(x: Array) -> Array:
        return lax.fori_loop(0, 3, lambda _, carry: jnp.sin(carry), x)

    spmd = lowered(loop, X, axes=M2, tactics=[("M", {"x": 0})]).spmd
    *before, control = spmd.body.ops
    assert isinstance(control, Control)
    condition, body = control.blocks
    dead = [op._replace(results=(len(spmd.types),)) for op in body.ops[-1:]]
    grown = replace(body, ops=(*body.ops, *dead))
    ops = (*before, replace(control, blocks=(condition, grown)))
    program = replace(
        spmd, types=(*spmd.types, spmd.types[0]), body=replace(spmd.body, ops=ops)
    )
    assert drop_dead(program).body == spmd.body


@pytest.mark.identity("unread")
def test_ops_with_effects_stay() -> None:
    def printed(x: Array) -> Array:
        jax.debug.print("{}", x.sum())
        return jnp.sin(x)

    spmd = at_home(partition(program_of(printed, X), M2))
    assert steps(drop_dead(spmd)) == ["reduce", "custom_call", "sine"]


# All of them


def assert_rewritten(state: State, args: Sequence[Any], expected: Any) -> None:
    """No rewrite moves more bytes, and all of them together keep the values."""
    before = spmd = drop_dead(at_home(state))
    for one in (*PASSES, *PREPARED):
        made = run_pass(spmd, one)
        assert made.bytes_communicated <= spmd.bytes_communicated, one.__name__
        spmd = made
    final = rewrite(before)
    assert final.bytes_communicated <= spmd.bytes_communicated
    assert_same(final, args, jax.tree.leaves(expected))
    if any(run_pass(final, one) is not final for one in PREPARED):
        for one in PREPARED:
            final = run_pass(final, one)
        assert_same(final, args, jax.tree.leaves(expected))


@pytest.mark.parametrize(
    ("function", "axes", "tactics"),
    [case for case in SCHEDULES if case[0] is not functions.train_step],
)
def test_rewrites_of_schedules(function: Any, axes: Any, tactics: Any) -> None:
    args = ARGUMENTS[function]()
    state = partition(program_of(function, *args), axes, tactics)
    assert_rewritten(state, args, jax.jit(function)(*args))


SMALL = [function for function in ARGUMENTS if function is not functions.train_step]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("function", SMALL, ids=lambda f: f.__name__)
def test_rewrites_of_loops_by_lot(function: Any, seed: int) -> None:
    args = ARGUMENTS[function]()
    mesh = Mesh({"B": 2, "M": 2, "C": 2})
    state = entered_at_random(program_of(function, *args), mesh, seed)
    assert_rewritten(state, args, jax.jit(function)(*args))
