"""Gradients of pools over tiled rows: what windows choose, and mistakes in it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from partir.mesh import Mesh
from partir.verify.classes.rows import FIRST_MADE, GARBAGE, MadeRows
from tests.verify.modules import (
    WHOLE,
    Case,
    constant,
    function,
    is_proved,
    reducer,
    unary,
)

MESH = {"B": 4}
X = jax.ShapeDtypeStruct((2, 16, 5), "float32")


def pooled(x: Array) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2), (1, 2, 1), "SAME")


def gradient(x: Array) -> Array:
    found: Array = jax.grad(lambda x: jnp.sum(jnp.sin(pooled(x))))(x)
    return found


@pytest.fixture(scope="module")
def partitioned() -> partir.Partitioned:
    rows = partir.ManualPartition({"x": 1}, axis="B")
    return partir.partition(gradient, MESH, [rows], args=(X,))


@pytest.mark.quick
def test_it_is_proved(partitioned: partir.Partitioned) -> None:
    assert partitioned.collectives["collective_permute"] == 4
    assert partitioned.verify().proved == ("out",)


CUT = "start_indices = array<i64: 0, {}, 0>, limit_indices = array<i64: 2, {}, 5>"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("direction GE>", "direction GT>", id="of equals the last"),
        pytest.param("direction GE>", "direction LE>", id="the smallest"),
        pytest.param('"stablehlo.add"', '"stablehlo.maximum"', id="largest gradient"),
        pytest.param(CUT.format(2, 6), CUT.format(1, 5), id="cut off one too early"),
        pytest.param("dense<-0.0", "dense<1.0", id="number behind the edge"),
        pytest.param("dense<0xFF800000>", "dense<0x7F800000>", id="padding"),
        pytest.param("(%74, %72, %30)", "(%74, %38, %30)", id="gradient unmasked"),
        pytest.param("(%55, %73)", "(%35, %73)", id="value unmasked"),
        pytest.param("dense<0.0", "dense<1.0", id="starts from one"),
        pytest.param("(%32, %arg0, %34)", "(%32, %arg0, %33)", id="own row"),
        pytest.param("(%37, %29)", "(%36, %29)", id="own gradient"),
    ],
)
def test_mistakes_are_found(
    partitioned: partir.Partitioned, right: str, wrong: str
) -> None:
    before, found, after = partitioned.stablehlo().rpartition(right)
    assert found
    assert partitioned.proof(before + wrong + after).not_proved


def chosen(name: str, value: str, given: str) -> str:
    """`%name`, what windows of two by two hand to the largest of four."""
    t = "tensor<f64>"
    return f"""%{name} = "stablehlo.select_and_scatter"(%{value}, %{given}, %z) ({{
    ^bb0(%p: {t}, %q: {t}):
      %pq = stablehlo.compare GE, %p, %q : ({t}, {t}) -> tensor<i1>
      stablehlo.return %pq : tensor<i1>
  }}, {reducer("add", "f64")[1:-1]}) {{
    window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 1, 1>
  }} : (tensor<4x4xf64>, tensor<3x3xf64>, {t}) -> tensor<4x4xf64>"""


@pytest.mark.usefixtures("x64")
def test_turned_windows_choose_others() -> None:
    """Which of two equal elements comes first depends on the order of dimensions."""
    given, zero = {"x": "4x4xf64", "g": "3x3xf64"}, constant("z", "0.0", "f64")
    turn, made = "transpose|, dims = [1, 0]", "4x4xf64"
    source = function(given, made, zero, chosen("r", "x", "g"))
    turned = [
        unary("y", turn, "x", made, made),
        unary("h", turn, "g", "3x3xf64", "3x3xf64"),
    ]
    back = unary("r", turn, "c", made, made)
    local = function(given, made, zero, *turned, chosen("c", "y", "h"), back)
    one = Mesh({"B": 1})
    assert is_proved(Case(source, source, [WHOLE, WHOLE], mesh=one))
    assert not is_proved(Case(source, local, [WHOLE, WHOLE], mesh=one))


def test_places_of_windows_have_numbers() -> None:
    made = MadeRows()
    shown = np.array([[[0, 1], [1, 2]], [[0, 1], [1, GARBAGE]]])
    given = np.array([[5, 6], [5, 6]])
    codes = made.windows(given, shown)
    assert (codes[0, 0] == codes[1, 0]).all()
    assert codes[0, 0, 0] != codes[0, 0, 1]
    assert (codes[1, 1] == GARBAGE).all()
    assert (codes[0] >= FIRST_MADE).all()
    other = made.windows(np.array([[6]]), np.array([[[0, 1]]]))
    assert not np.isin(other, codes).any()
    turned = made.windows(np.array([[5]]), np.array([[[1, 0]]]))
    assert not np.isin(turned, codes).any()
