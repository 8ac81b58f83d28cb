"""PartIR:Core as text."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from partir.ir.core import Program, Tie
from partir.partition.core_text import core_text
from partir.partition.propagate import propagate
from tests.conftest import Golden
from tests.programs import partition, program_of, value_named

pytestmark = pytest.mark.quick


X = jax.ShapeDtypeStruct((8, 16), jnp.float32)
W = jax.ShapeDtypeStruct((16, 16), jnp.float32)


def mlp(x: Array, w1: Array, w2: Array) -> Array:
    return jnp.tanh(x @ w1) @ w2


def test_nested_loops(golden: Golden) -> None:
    tactics = [("B", {"x": 0}), ("M", {"w1": 1})]
    state = partition(program_of(mlp, X, W, W), {"B": 4, "M": 2}, tactics)
    assert core_text(state) == golden


def test_two_axes_on_one_dimension(golden: Golden) -> None:
    tactics = [("M", {"w1": 1}), ("B", {"w1": 1})]
    state = partition(program_of(mlp, X, W, W), {"B": 4, "M": 2}, tactics)
    assert core_text(state) == golden


def test_nothing_decided() -> None:
    text = core_text(partition(program_of(mlp, X, W, W), {"B": 4}))
    assert "loop" not in text
    assert "%4 = tanh(%3) : f32[8,16]" in text


def test_attributes_when_asked_for() -> None:
    state = partition(program_of(mlp, X, W, W), {"B": 4})
    assert "lhs_contracting_dimensions" not in core_text(state)
    assert "lhs_contracting_dimensions" in core_text(state, attributes=True)


def test_several_results(golden: Golden) -> None:
    def largest(x: Array) -> Array:
        return jnp.argmax(x, axis=1)

    state = partition(program_of(largest, X), {"B": 4}, [("B", {"x": 0})])
    assert core_text(state) == golden


def test_scan(golden: Golden) -> None:
    def scan(x: Array, weights: Array) -> Array:
        return lax.scan(lambda c, w: (c @ w, None), x, weights)[0]

    weights = jax.ShapeDtypeStruct((3, 16, 16), jnp.float32)
    state = partition(program_of(scan, X, weights), {"B": 4}, [("B", {"x": 0})])
    assert core_text(state) == golden


def test_case(golden: Golden) -> None:
    def branch(index: Array, x: Array) -> Array:
        return lax.switch(index, [jnp.sin, jnp.cos], x)

    index = jax.ShapeDtypeStruct((), jnp.int32)
    state = partition(program_of(branch, index, X), {"B": 4}, [("B", {"x": 0})])
    assert core_text(state) == golden


def test_pins_and_conflicts(golden: Golden) -> None:
    program = program_of(mlp, X, W, W)
    state = partition(program, {"B": 4})
    state.pin(value_named(program, "w1"), "B", uses_only=False)
    state.pin(value_named(program, "w2"), "B", uses_only=True)
    state.set_home(value_named(program, "x"), 1, "B", None)
    (product,) = program.ops[0].results
    state.set_home(product, 0, "B", None)
    propagate(state, "B")
    assert core_text(state) == golden


def test_state_carried_between_calls() -> None:
    def step(x: Array) -> Array:
        return x + 1

    program = program_of(step, X)
    ((result,), (argument,)) = program.body.results, program.body.arguments
    tied = Program(
        program.name,
        program.types,
        program.ops,
        program.body,
        program.arguments,
        program.results,
        ties=(Tie((result,), (argument,)),),
    )
    lines = core_text(partition(tied, {"B": 4}, [("B", {"x": 0})])).splitlines()
    loop = 'loop "B" [#tile<0>] (%rB: range<4>)'
    assert lines[-3] == f"  tie {loop} (%{result} -> %x)"


def test_program_without_arguments() -> None:
    def constants() -> Array:
        return jnp.asarray(np.arange(8))

    assert core_text(partition(program_of(constants), {"B": 4})).startswith("func @")
