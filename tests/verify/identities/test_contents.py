"""Numbers of the source that devices make in other ways are known by what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import partir
from partir.mesh import Mesh
from partir.verify import prove
from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import GARBAGE, OPEN, RowTable, fill
from partir.verify.classes.terms import ClassTerm
from partir.verify.identities.contents import tilings
from partir.verify.layouts.concrete import (
    KNOWN,
    evaluated,
    number_class,
    numbers,
    shown_numbers,
)
from partir.verify.layouts.layout import Digit, DigitLayout, View

pytestmark = pytest.mark.quick

TWO = Mesh({"B": 2})
SOURCE = """func.func public @main(%x: tensor<6xi32>) -> tensor<6xi32> {
  %i = stablehlo.iota dim = 0 : tensor<6xi32>
  %n = stablehlo.constant dense<4> : tensor<6xi32>
  %m = stablehlo.remainder %i, %n : tensor<6xi32>
  %r = stablehlo.multiply %x, %m : tensor<6xi32>
  return %r : tensor<6xi32> }"""


def tile(table: str) -> str:
    """A module that looks its numbers up: a row of a table for each device."""
    return f"""func.func public @main(%x: tensor<3xi32>) -> tensor<3xi32> {{
      %t = stablehlo.constant dense<{table}> : tensor<2x3xi32>
      %p = stablehlo.partition_id : tensor<ui32>
      %i = stablehlo.convert %p : (tensor<ui32>) -> tensor<i32>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %s = stablehlo.dynamic_slice %t, %i, %z, sizes = [1, 3]
        : (tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> tensor<1x3xi32>
      %m = stablehlo.reshape %s : (tensor<1x3xi32>) -> tensor<3xi32>
      %r = stablehlo.multiply %x, %m : tensor<3xi32>
      return %r : tensor<3xi32> }}"""


@pytest.mark.parametrize(
    ("table", "right"),
    [
        ("[[0, 1, 2], [3, 0, 1]]", True),
        ("[[0, 1, 2], [3, 0, 2]]", False),
        ("[[3, 0, 1], [0, 1, 2]]", False),
        ("[[0, 2, 0], [1, 3, 1]]", False),
    ],
)
def test_numbers_are_known_by_what_they_are(table: str, right: bool) -> None:
    tiled: Any = [[["B"]]]
    proof = prove(partir.load(SOURCE), tile(table), TWO, tiled, tiled)
    assert bool(proof.proved) == right


def test_tilings_include_short_tiles_and_use_axes_once() -> None:
    assert [*tilings((5,), (3,), (2, 3))] == [((0,),)]
    assert [*tilings((6, 6), (3, 6), (2, 2))] == [((0,), ()), ((1,), ())]
    assert [*tilings((4, 4), (2, 2), (2,))] == []


@pytest.mark.parametrize(
    ("number", "dtype", "kept"),
    [(-1, "ui64", 2**64 - 1), (2**64 - 1, "ui64", 2**64 - 1), (255, "i8", -1)],
)
def test_a_number_has_one_class(number: int, dtype: str, kept: int) -> None:
    classes = Classes()
    node = number_class(classes, number, dtype)
    assert node == number_class(classes, kept, dtype)
    values = evaluated(classes, node)
    assert values is not None
    assert values == np.array(kept, values.dtype)


ZERO = 1 << 39  # the row of the number zero


def test_rows_that_are_no_numbers_are_not_read_as_such() -> None:
    classes = Classes()
    three = number_class(classes, 3, "i32")
    known = ClassTerm(KNOWN, (), (), (), (), new=(OPEN,), dtype="i32")
    codes = np.array([ZERO + 5, fill(three), GARBAGE])
    layout = DigitLayout(((Digit(0, 1, 3),),), (), ((0, RowTable(codes, OPEN)),))
    view = View(classes.of(known), layout)
    shown = shown_numbers(classes, view)
    assert shown is not None
    assert shown.values[:2].tolist() == [5, 3]
    assert shown.known.tolist() == [True, True, False]
    assert numbers(classes, view) is None


SHORT = """func.func public @main(%x: tensor<5xi32>) -> tensor<5xi32> {
  %i = stablehlo.iota dim = 0 : tensor<5xi32>
  %n = stablehlo.constant dense<3> : tensor<5xi32>
  %m = stablehlo.remainder %i, %n : tensor<5xi32>
  %d = stablehlo.subtract %n, %m : tensor<5xi32>
  %q = stablehlo.divide %n, %d : tensor<5xi32>
  %r = stablehlo.multiply %x, %q : tensor<5xi32>
  return %r : tensor<5xi32> }"""


@pytest.mark.parametrize(("start", "right"), [(3, True), (2, False)])
def test_numbers_of_short_tiles(start: int, right: bool) -> None:
    """What is behind the end may be any number, such as one by which none divides."""
    local = SHORT.replace("5xi32", "3xi32").replace(
        "%i = stablehlo.iota dim = 0 : tensor<3xi32>",
        f"""%c = stablehlo.iota dim = 0 : tensor<3xi32>
  %p = stablehlo.partition_id : tensor<ui32>
  %s = stablehlo.convert %p : (tensor<ui32>) -> tensor<i32>
  %t = stablehlo.constant dense<{start}> : tensor<i32>
  %o = stablehlo.multiply %s, %t : tensor<i32>
  %b = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<i32>) -> tensor<3xi32>
  %i = stablehlo.add %b, %c : tensor<3xi32>""",
    )
    tiled: Any = [[["B"]]]
    proof = prove(partir.load(SHORT), local, TWO, tiled, tiled)
    assert bool(proof.proved) == right
