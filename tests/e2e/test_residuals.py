"""Residuals of functions kept whole: nobody promises their order.

`turned` saves its residual back to front, which no rule tells. It is right only if the
backward pass is in the loops of the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir import ManualPartition
from partir.frontend.opaque_calls import local_functions
from partir.partition.check import check
from partir.partition.tied import tied
from partir.spmd.stablehlo.sequential import sequential_text
from tests.e2e.compare import MESH, QUICK, assert_same
from tests.programs import run_text

pytestmark = pytest.mark.usefixtures("double")


def turned(x: Array) -> Array:
    return jnp.flip(jnp.sin(jnp.flip(x, 0)), 0)


kept = partir.opaque(turned, "b d -> b d", name="turned")

ROWS_AND_COLUMNS = ManualPartition({"x": 0, "c": 1}, axis="B")


def normal(seed: int, *shape: int) -> Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def agree(
    function: Callable[..., Any], schedule: Any, *args: Any
) -> partir.Partitioned:
    """Partitioned, loop by loop and on one device."""
    options = {"args": args, "compiler_options": QUICK}
    p = partir.partition(function, MESH, schedule, **options)
    want = jax.jit(function)(*args)
    assert_same(p.compile()(*args), want)
    state = p.steps[-1].completed
    check(tied(state))
    functions = local_functions(p.program.opaque)  # type: ignore[attr-defined]
    made = run_text(sequential_text(state, functions), p.program, args)
    for got, leaf in zip(made, jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(got, leaf, rtol=1e-9, atol=1e-12)
    return p


def loss(x: Array, c: Array) -> Array:
    return jnp.sum(kept(2 * x) * c)


def test_cotangents_that_are_tiled_otherwise() -> None:
    p = agree(jax.grad(loss), [ROWS_AND_COLUMNS], normal(0, 8, 8), normal(1, 8, 8))
    # The cotangent goes to the rows; what was saved stays where it is.
    counts = {"all_to_all": 1}
    assert p.collectives == dict.fromkeys(p.collectives, 0) | counts
    assert "yield custom_call(slice 0 %6[%rB], slice 0 %8[%rB], " in p.core_text()


@dataclass(frozen=True)
class RowsThenColumns:
    """Rows forward; the backward pass in a loop over columns, whatever it needs."""

    name: str = "columns"

    def apply(self, partition: partir.Partition) -> None:
        program = partition.state.graph.program
        calls = [op for op in program.ops if op.kind == "stablehlo.custom_call"]
        for call, factor in zip(calls, (0, 1), strict=True):
            partition.choose(program.addresses[call.results[0]], factor, "B")


def test_backward_pass_in_a_loop_of_its_own() -> None:
    p = agree(jax.grad(loss), [RowsThenColumns()], normal(0, 8, 8), normal(1, 8, 8))
    state = p.steps[-1].state
    assert state is not tied(state)


def test_two_layers_in_loops_of_their_own() -> None:
    def deep(x: Array, c: Array) -> Array:
        return jnp.sum(kept(kept(x).T @ c) * c)

    p = agree(jax.grad(deep), [ROWS_AND_COLUMNS], normal(0, 8, 8), normal(1, 8, 8))
    first, second = p.steps[-1].state.graph.pairs
    assert len(first) == len(second) == 2


def test_through_a_scan() -> None:
    def scanned(x: Array, c: Array) -> Array:
        def layer(x: Array, c: Array) -> tuple[Array, None]:
            return kept(x * 2) * c, None

        return jnp.sum(jax.lax.scan(layer, x, c)[0] ** 2)

    columns = ManualPartition({"x": 0, "c": 2}, axis="B")
    agree(jax.grad(scanned), [columns], normal(0, 8, 8), normal(1, 3, 8, 8))


def test_recomputed() -> None:
    def again(x: Array, c: Array) -> Array:
        return jnp.sum(jax.checkpoint(lambda x: kept(2 * x))(x) * c)

    agree(jax.grad(again), [ROWS_AND_COLUMNS], normal(0, 8, 8), normal(1, 8, 8))


@pytest.mark.parametrize("axis", [0, 1])
def test_under_vmap(axis: int) -> None:
    """The batch is one more name: a conflict between it and the rows."""
    gradient = jax.vmap(jax.grad(loss), in_axes=(axis, 0))
    both = ManualPartition({"x": 1 - axis, "c": 0}, axis="B")

    def batched(x: Array, c: Array) -> Array:
        return gradient(x, c)

    agree(batched, [both], normal(0, 8, 8, 4), normal(1, 8, 8, 4))


def test_second_derivatives() -> None:
    def curved(x: Array, c: Array) -> Any:
        first = jax.grad(loss)
        twice = jax.grad(lambda x: jnp.sum(first(x, c) ** 2 * c.T))(x)
        return jax.jvp(first, (x, c), (c, x))[1], twice

    agree(curved, [ROWS_AND_COLUMNS], normal(0, 8, 8), normal(1, 8, 8))


def test_names_that_a_derivative_keeps_whole() -> None:
    """Forward, columns are tiled; backward they can't be: neither is."""

    def largest(x: Array) -> Array:
        return jnp.sin(jnp.flip(x, 1)).max(axis=1)

    kept = partir.opaque(largest, "b d -> b max=d", name="largest")

    def total(x: Array) -> Array:
        return jnp.sum(kept(2 * x) ** 2)

    columns = ManualPartition({"x": 1}, axis="B")
    agree(jax.grad(total), [columns], normal(0, 4, 8))
