"""Numbers in place of rows that an op read, and what other ops make of that."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

import partir
from partir.mesh import Mesh
from partir.verify.classes.rows import FIRST_FILLED, MadeRows, fill
from tests.verify.modules import (
    Case,
    all_reduce,
    constant,
    device,
    function,
    is_proved,
)
from tests.verify.test_right_and_wrong import shape

pytestmark = pytest.mark.quick

THREE = Mesh({"B": 3})
ROW = "1x3xf32"


def reduce_rows(name: str, operand: str, rows: int) -> str:
    types = f"(tensor<{rows}x3xf32>, tensor<f32>) -> tensor<3xf32>"
    how = "applies stablehlo.add across dimensions = [0]"
    return f"%{name} = stablehlo.reduce(%{operand} init: %zero) {how} : {types}"


def spread(name: str, rows: int) -> str:
    types = f"(tensor<3xf32>) -> tensor<{rows}x3xf32>"
    return f"%{name} = stablehlo.broadcast_in_dim %b, dims = [1] : {types}"


SOURCE = function(
    {"x": "2x3xf32", "b": "3xf32"},
    "3xf32",
    constant("zero", 0.0, "f32"),
    spread("bs", 2),
    "%each = stablehlo.add %x, %bs : tensor<2x3xf32>",
    reduce_rows("sum", "each", 2),
    "%r = stablehlo.negate %sum : tensor<3xf32>",
)


def local(*ops: str) -> str:
    """Two rows over three devices: the last one has a row of zeros."""
    padded = "low = [0, 0], high = [1, 0], interior = [0, 0]"
    row = f"(tensor<3x3xf32>, tensor<i32>, tensor<i32>) -> tensor<{ROW}>"
    return function(
        {"x": "2x3xf32", "b": "3xf32"},
        "3xf32",
        constant("zero", 0.0, "f32"),
        constant("first", 0, "i32"),
        device("at", 1),
        f"%pad = stablehlo.pad %x, %zero, {padded} : "
        "(tensor<2x3xf32>, tensor<f32>) -> tensor<3x3xf32>",
        f"%row = stablehlo.dynamic_slice %pad, %at, %first, sizes = [1, 3] : {row}",
        spread("bs", 1),
        *ops,
        reduce_rows("part", "made", 1),
        all_reduce("r", "part", "add", "3xf32").replace(
            "dense<[[0, 1]]> : tensor<1x2xi64>", "dense<[[0, 1, 2]]> : tensor<1x3xi64>"
        ),
    )


ADDED = f"%each = stablehlo.add %row, %bs : tensor<{ROW}>"
NEGATED = f"%made = stablehlo.negate %each : tensor<{ROW}>"
MASKED = (
    constant("two", 2, "i32"),
    "%inside = stablehlo.compare LT, %at, %two : (tensor<i32>, tensor<i32>) "
    "-> tensor<i1>",
    constant("zeros", 0.0, ROW),
    f"%added = stablehlo.add %row, %bs : tensor<{ROW}>",
    f"%each = stablehlo.select %inside, %added, %zeros : tensor<i1>, tensor<{ROW}>",
)


def test_what_is_made_of_a_number_is_not_the_number() -> None:
    """Zero and the bias: without a mask, the bias is added once too often."""
    given = ((), ())
    assert is_proved(Case(SOURCE, local(*MASKED, NEGATED), given, mesh=THREE))
    assert not is_proved(Case(SOURCE, local(ADDED, NEGATED), given, mesh=THREE))


def test_tuples_of_one_are_told_apart_at_any_depth() -> None:
    made = MadeRows()
    rows = np.array([3, fill(5), -1, made.tuples(np.array([[1, 2]]))[0]])
    seen = []
    for _ in range(4):
        wider = made.tuples(rows[:, None])
        assert np.array_equal(made.columns(wider, 1)[:, 0], rows)
        seen.append(int(wider[1]))
        rows = wider
    assert seen[0] >= FIRST_FILLED
    assert len({*seen}) == len(seen)


def taps(x: jax.Array, w: jax.Array) -> jax.Array:
    """Of each tap, which a device has alone, some places are outside of the value."""
    kinds = ("NWC", "WIO", "NWC")
    return lax.conv_general_dilated(x, w, (1,), ((1, 1),), dimension_numbers=kinds)


def test_products_with_zeros_around_a_value_count_nothing() -> None:
    tactic = partir.ManualPartition({"w": 0}, axis="B")
    args = (shape(2, 7, 2), shape(3, 2, 2))
    p = partir.partition(taps, {"B": 3}, [tactic], args=args)
    assert not p.verify().not_proved
    text = p.stablehlo()
    one_off = text.replace(
        "edge_padding_low = array<i64: 0, 1, 0>",
        "edge_padding_low = array<i64: 0, 2, 0>",
    ).replace(
        "edge_padding_high = array<i64: 0, 1, 0>",
        "edge_padding_high = array<i64: 0, 0, 0>",
    )
    ones = text.replace("dense<0.000000e+00>", "dense<1.000000e+00>")
    assert one_off != text != ones
    assert p.proof(one_off).proved == p.proof(ones).proved == ()


BESIDE = function(
    {"x": "3x2xf32", "y": "3x3xf32"},
    "5xf32",
    constant("zero", 0.0, "f32"),
    "%both = stablehlo.concatenate %x, %y, dim = 1 : "
    "(tensor<3x2xf32>, tensor<3x3xf32>) -> tensor<3x5xf32>",
    "%r = stablehlo.reduce(%both init: %zero) applies stablehlo.add across "
    "dimensions = [0] : (tensor<3x5xf32>, tensor<f32>) -> tensor<5xf32>",
)


def short_tile(name: str, operand: str, size: int, number: str) -> str:
    """Two rows of three, and what is behind them on the last device."""
    whole, rows = f"tensor<4x{size}xf32>", "low = [0, 0], high = [1, 0]"
    return f"""%{name}s = stablehlo.pad %{operand}, %{number}, {rows},
    interior = [0, 0] : (tensor<3x{size}xf32>, tensor<f32>) -> {whole}
  %{name} = stablehlo.dynamic_slice %{name}s, %at, %first, sizes = [2, {size}] :
    ({whole}, tensor<i32>, tensor<i32>) -> tensor<2x{size}xf32>"""


def beside(x_number: str, y_number: str) -> str:
    """Short tiles side by side, added up over both devices."""
    return function(
        {"x": "3x2xf32", "y": "3x3xf32"},
        "5xf32",
        constant("zero", 0.0, "f32"),
        constant("one", 1.0, "f32"),
        constant("first", 0, "i32"),
        device("at", 2),
        short_tile("a", "x", 2, x_number),
        short_tile("b", "y", 3, y_number),
        "%both = stablehlo.concatenate %a, %b, dim = 1 : "
        "(tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x5xf32>",
        "%part = stablehlo.reduce(%both init: %zero) applies stablehlo.add across "
        "dimensions = [0] : (tensor<2x5xf32>, tensor<f32>) -> tensor<5xf32>",
        all_reduce("r", "part", "add", "5xf32"),
    )


def test_short_tiles_side_by_side_end_in_the_same_number() -> None:
    given = ((), ())
    assert is_proved(Case(BESIDE, beside("zero", "zero"), given))
    for numbers in (("zero", "one"), ("one", "zero"), ("one", "one")):
        assert not is_proved(Case(BESIDE, beside(*numbers), given))
