"""Products that read a weight where it lies, if fewer bytes move so."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from partir.mesh import Mesh
from partir.partition.check import check
from partir.partition.complete import complete
from partir.partition.state import REST, State
from partir.rules.nest import Nest
from partir.spmd.lowering import resting_operands
from partir.spmd.lowering.resting_operands import Products, in_loops, rest_operands
from partir.spmd.program import Collective
from partir.spmd.rewrites.table import rewrite
from tests import functions
from tests.functions import ARGUMENTS
from tests.programs import partition, program_of
from tests.spmd import lowered as made
from tests.spmd.lowered import at_home, floats, steps
from tests.spmd.stablehlo import test_sequential as sequential

Array = jax.Array
B4, B4M2 = {"B": 4}, {"B": 4, "M": 2}


def product(x: Array, w: Array) -> Array:
    return x @ w


def state_of(function: Callable[..., Any], *args: Any, **how: Any) -> State:
    return resting(complete(partition(program_of(function, *args), **how)))


def resting(state: State) -> State:
    """All arguments rest, over all axes."""
    for port in state.graph.program.arguments:
        for axis in state.mesh:
            state.say_gathered(port.value, axis, REST)
    return state


def settled(function: Callable[..., Any], *args: Any, **how: Any) -> list[str]:
    """Steps of a function in its final loops, whose values are checked."""
    state = rest_operands(state_of(function, *args, **how))
    check(state)
    spmd = rewrite(at_home(state))
    made.assert_same(spmd, args, jax.tree.leaves(jax.jit(function)(*args)))
    return steps(spmd)


@pytest.fixture(autouse=True)
def _exactly(x64: None) -> None:
    """All in 64 bits."""


X, W = floats(0, 8, 64), floats(1, 64, 512)
ROWS = ("B", {"x": 0})


# Where it rests


def test_a_weight_that_is_contracted_rests() -> None:
    assert settled(product, X, W, axes=B4, tactics=[ROWS, ("B", {"w": 0})]) == [
        "all_to_all 0 B",
        "dot_general",
        "reduce_scatter 0 B",
    ]


def test_a_weight_whose_columns_are_tiled_rests() -> None:
    assert settled(product, X, W, axes=B4, tactics=[ROWS, ("B", {"w": 1})]) == [
        "all_gather 0 B",
        "dot_general",
        "all_to_all 1 B",
    ]


def test_axes_of_a_weight_nest_as_it_lies() -> None:
    """Of one dimension, M is the major axis: tiles must not change places."""
    tactics = [ROWS, ("M", {"w": 0}), ("B", {"w": 0})]
    made = settled(product, X, W, axes=B4M2, tactics=tactics)
    assert "collective_permute" not in " ".join(made)
    assert made[-2:] == ["reduce_scatter 0 B", "all_reduce M"]


def test_a_gradient_is_made_where_it_is_kept() -> None:
    def gradient(x: Array, y: Array) -> Array:
        return jnp.sin(x).T @ jnp.sin(y)  # neither is handed over

    x, y = floats(0, 8, 128), floats(1, 8, 256)
    tactics = [("B", {"x": 0, "y": 0}), ("B", {"result0": 0})]
    state = resting(partition(program_of(gradient, x, y), B4, tactics))
    spmd = rewrite(at_home(rest_operands(state)))
    made.assert_same(spmd, (x, y), [gradient(x, y)])
    assert {"reduce_scatter", "all_reduce"}.isdisjoint(kinds(spmd))
    assert spmd.bytes_communicated < rewrite(at_home(state)).bytes_communicated


def kinds(spmd: Any) -> set[str]:
    return {op.kind for op, _ in spmd.walk() if isinstance(op, Collective)}


def test_a_layer_of_a_stack_rests_inside_its_loop() -> None:
    def layers(x: Array, w: Array) -> Array:
        return jax.lax.scan(lambda c, one: (jnp.tanh(c @ one), None), x, w)[0]

    x, w = floats(0, 8, 256), floats(1, 3, 256, 256) / 16
    tactics = [ROWS, ("B", {"w": 1})]
    state = rest_operands(state_of(layers, x, w, axes=B4, tactics=tactics))
    spmd = rewrite(at_home(state))
    made.assert_same(spmd, (x, w), [jax.jit(layers)(x, w)])
    assert spmd.collectives["all_gather"] == 0
    assert spmd.collectives["all_to_all"] == spmd.collectives["reduce_scatter"] == 3


# Where it does not


@pytest.mark.parametrize(
    ("x", "w", "how"),
    [
        pytest.param(floats(0, 512, 64), W, {}, id="many-rows"),
        pytest.param(X, W, {"gathered": {"w": "B"}}, id="whole-at-its-uses"),
    ],
)
def test_a_weight_is_gathered_all_the_same(x: Any, w: Any, how: Any) -> None:
    tactics = [ROWS, ("B", {"w": 0})]
    state = state_of(product, x, w, axes=B4, tactics=tactics, **how)
    assert rest_operands(state) is state


def test_what_is_said_of_its_gathers_holds() -> None:
    tactics = [ROWS, ("B", {"w": 0})]
    state = state_of(product, X, W, axes=B4, tactics=tactics)
    state.say_gathered(state.graph.program.arguments[1].value, "B", "again")
    assert rest_operands(state) is state


def test_nothing_changes_if_the_whole_program_would_send_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tactics = [ROWS, ("B", {"w": 0})]
    state = state_of(product, floats(0, 512, 64), W, axes=B4, tactics=tactics)
    monkeypatch.setattr(resting_operands, "CLEARLY", math.inf)
    assert dict(Products(state).changes())
    assert rest_operands(state) is state


def test_what_an_op_computes_is_not_what_rests() -> None:
    """Megatron with its sequence split keeps its gathers, however few bytes."""

    def column(x: Array, w: Array) -> Array:
        return jnp.sin(x) @ w

    x, w = floats(0, 512, 64), floats(1, 64, 128)
    tactics = [("M", {"w": 1}), ("M", {"x": 0})]
    state = state_of(column, x, w, axes={"M": 2}, tactics=tactics)
    assert rest_operands(state) is state


# What it leaves as it was


def test_sums_are_in_the_type_that_the_program_adds_in() -> None:
    x, w = jnp.ones((8, 256), jnp.bfloat16), jnp.ones((256, 1024), jnp.bfloat16)
    tactics = [ROWS, ("B", {"w": 0})]
    state = rest_operands(state_of(product, x, w, axes=B4, tactics=tactics))
    spmd = rewrite(at_home(state))
    types = {
        str(spmd.types[op.operand].dtype)
        for op, _ in spmd.walk()
        if isinstance(op, Collective)
    }
    assert state.resting
    assert types == {"bf16"}
    made.assert_same(spmd, (x, w), [product(x, w)])  # 256 ones: no sum is rounded


WITH_PRODUCTS = functions.mlp_grad, functions.scan_layers, functions.branches


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("function", WITH_PRODUCTS, ids=lambda f: f.__name__)
def test_products_in_other_loops_give_the_same(
    function: Callable[..., Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever rests, in programs whose loops were drawn by lot, gained or not."""
    monkeypatch.setattr(Products, "_rests", lambda self, value, axes: bool(axes))
    args, draw = ARGUMENTS[function](), random.Random(seed)
    program, mesh = program_of(function, *args), Mesh(sequential.THREE)
    changes: dict[int, Nest] = {}
    while not changes:  # in some, no product can be in other loops
        drawn = sequential.entered_at_random(program, mesh, draw.randrange(1000))
        state = resting(drawn)
        found = Products(state).others()
        changes = {node: draw.choice(others) for node, others in found}
    other = in_loops(state, changes)
    check(other)
    for node, nest in changes.items():
        before, after = (_parts(one) for one in (state.nests[node], nest))
        assert before == after  # a device does as much as before
    expected = jax.jit(function)(*args)
    sequential.assert_same(other, args, expected)
    spmd = rewrite(at_home(other))
    made.assert_same(spmd, args, jax.tree.leaves(expected))


def _parts(nest: Any) -> int:
    return math.prod(loop.size for loop in nest.loops)
