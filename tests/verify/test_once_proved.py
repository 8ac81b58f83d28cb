"""Wrong modules that were proved once, each beside a right one that is."""

from __future__ import annotations

import pytest

from tests.verify.modules import (
    Case,
    all_reduce,
    constant,
    function,
    is_proved,
    permute,
)

pytestmark = pytest.mark.quick

# Sums side by side, one of them padded with ones


def summed(name: str, operand: str, size: int) -> str:
    types = f"(tensor<2x3x{size}xf32>, tensor<f32>) -> tensor<2x3xf32>"
    how = "applies stablehlo.add across dimensions = [2]"
    return f"%{name} = stablehlo.reduce(%{operand} init: %zero) {how} : {types}"


PAD = """%pad = stablehlo.pad %a, %one, low = [0, 0], high = [1, 0], interior = [0, 0] :
    (tensor<2x3xf32>, tensor<f32>) -> tensor<3x3xf32>"""
NUMBERS = constant("zero", 0.0, "f32"), constant("one", 1.0, "f32")


def joined(first: str, rows: int) -> str:
    types = f"(tensor<{rows}x3xf32>, tensor<2x3xf32>) -> tensor<{rows + 2}x3xf32>"
    return f"%c = stablehlo.concatenate %{first}, %b, dim = 0 : {types}"


def side_by_side(size: int, padded: bool, last: str) -> str:
    given = f"2x3x{size}xf32"
    first, rows = ("pad", 3) if padded else ("a", 2)
    return function(
        {"x": given, "y": given},
        made_of(padded),
        *NUMBERS,
        summed("a", "x", size),
        summed("b", "y", size),
        *((PAD,) if padded else ()),
        joined(first, rows),
        f"%m = stablehlo.negate %c : tensor<{made_of(padded)}>",
        last,
    )


def made_of(padded: bool) -> str:
    return f"{4 + padded}x3xf32"


@pytest.mark.parametrize("padded", [False, True])
def test_numbers_among_sums_side_by_side_are_summed_too(padded):
    tiled, made = ((), (), ("B",)), made_of(padded)
    same = f"%r = stablehlo.reshape %m : (tensor<{made}>) -> tensor<{made}>"
    source = side_by_side(4, padded, same)
    local = side_by_side(2, padded, all_reduce("r", "m", "add", made))
    assert is_proved(Case(source, local, (tiled, tiled))) is not padded


# A scatter of several windows by indices without columns


def update(row: int) -> str:
    return function(
        {"x": "4xf32", "u": "3x2xf32"},
        "4xf32",
        f"%row = stablehlo.slice %u [{row}:{row + 1}, 0:2] : (tensor<3x2xf32>) -> "
        "tensor<1x2xf32>",
        "%w = stablehlo.reshape %row : (tensor<1x2xf32>) -> tensor<2xf32>",
        constant("at", 0, "i32"),
        "%r = stablehlo.dynamic_update_slice %x, %w, %at : "
        "(tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>",
    )


def scatter(windows: int, columns: int) -> str:
    index, window = f"{windows}x{columns}xi32", f"{windows}x2xf32"
    numbers = "[[0]]" if columns else ""
    addressed = "[0]" if columns else "[]"
    return function(
        {"x": "4xf32", "u": "3x2xf32"},
        "4xf32",
        "%v = stablehlo.reverse %u, dims = [0] : tensor<3x2xf32>",
        f"%w = stablehlo.slice %v [0:{windows}, 0:2] : (tensor<3x2xf32>) -> "
        f"tensor<{window}>",
        f"%at = stablehlo.constant dense<{numbers}> : tensor<{index}>",
        f"""%r = "stablehlo.scatter"(%x, %at, %w) ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      stablehlo.return %q : tensor<f32>
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
    scatter_dims_to_operand_dims = {addressed}, index_vector_dim = 1>}} :
    (tensor<4xf32>, tensor<{index}>, tensor<{window}>) -> tensor<4xf32>""",
    )


@pytest.mark.parametrize(("windows", "columns", "right"), [(1, 1, True), (3, 0, False)])
def test_several_windows_are_not_one(windows, columns, right):
    case = Case(update(2), scatter(windows, columns), ((), ()))
    assert is_proved(case) is right


# A mask of one truth takes what is not known with what it chooses

TILE, TRUTHS = "2x3xf32", "2x3xi1"
SPREAD = (
    "%bb = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<2x3xf32>"
)
NEGATED = f"%r = stablehlo.negate %{{}} : tensor<{TILE}>"
CHOSEN = function({"x": "4x3xf32", "b": "f32"}, TILE, SPREAD, NEGATED.format("bb"))


def choice(mask: str, value: str, *moved: str) -> str:
    return function(
        {"x": TILE, "b": "f32"},
        TILE,
        SPREAD,
        constant("true", "true", TRUTHS),
        *moved,
        f"%s = stablehlo.select %{mask}, %{value}, %x : "
        f"tensor<{TRUTHS}>, tensor<{TILE}>",
        NEGATED.format("s"),
    )


@pytest.mark.parametrize(
    ("local", "right"),
    [
        (choice("true", "bb"), True),
        (choice("true", "v", permute("v", "bb", [[0, 1]], TILE)), False),
        (choice("m", "bb", permute("m", "true", [[0, 1]], TRUTHS)), False),
    ],
)
def test_what_one_device_does_not_get_is_not_known(local, right):
    assert is_proved(Case(CHOSEN, local, ((("B",),), ()))) is right
