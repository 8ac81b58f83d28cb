"""Ops on dimensions that were merged and are cut elsewhere: right ones, and others."""

from __future__ import annotations

import pytest

from tests.verify.modules import (
    Case,
    all_reduce,
    constant,
    device,
    function,
    is_proved,
    permute,
    unary,
)

pytestmark = pytest.mark.quick

SWAPPED = [[0, 1], [1, 0]]
HALF, OTHER = "12xf64", "12x5xf64"


def merged(order: str = "1, 0") -> str:
    """`%f`, 24 rows: three times eight of `%x`, or eight times three."""
    then = "3x8xf64" if order == "1, 0" else "8x3xf64"
    return "\n  ".join(
        (
            unary("t", f"transpose|, dims = [{order}]", "x", "8x3xf64", then),
            unary("f", "reshape", "t", then, "24xf64"),
        )
    )


def half(tile: int = 12) -> str:
    """`%h`: a device's twelve of the rows, which are one and a half times eight."""
    return f"""{device("at", tile)}
  %h = stablehlo.dynamic_slice %f, %at, sizes = [12]
    : (tensor<24xf64>, tensor<i32>) -> tensor<12xf64>"""


def binary(kind: str, x: str, y: str, type_: str) -> str:
    return f"%r = stablehlo.{kind} %{x}, %{y} : tensor<{type_}>"


def product(name: str, x: str, rows: int, y: str = "y") -> str:
    types = f"(tensor<{rows}xf64>, tensor<{rows}x5xf64>) -> tensor<5xf64>"
    return (
        f"%{name} = stablehlo.dot_general %{x}, %{y}, contracting_dims = [0] x [0]"
        f" : {types}"
    )


def summed(
    order: str = "1, 0", tile: int = 12, op: str = "add", other: str = "y"
) -> Case:
    """A product that sums over the merged dimension, on each device over a half."""
    source = function(
        {"x": "8x3xf64", "y": "24x5xf64"}, "5xf64", merged(), product("r", "f", 24)
    )
    local = function(
        {"x": "8x3xf64", "y": OTHER},
        "5xf64",
        *(merged(order), half(tile), permute("z", "y", SWAPPED, OTHER)),
        product("part", "h", 12, other),
        all_reduce("r", "part", op, "5xf64"),
    )
    return Case(source, local, [(), (("B",),)])


def each(
    kind: str = "subtract",
    order: str = "1, 0",
    tile: int = 12,
    operands: tuple[str, str] = ("h", "y"),
) -> Case:
    """An op on each element, on devices on each of their half."""
    source = function(
        {"x": "8x3xf64", "y": "24xf64"},
        "24xf64",
        *(merged(), binary("subtract", "f", "y", "24xf64")),
    )
    local = function(
        {"x": "8x3xf64", "y": HALF},
        HALF,
        *(merged(order), half(tile), permute("z", "y", SWAPPED, HALF)),
        binary(kind, *operands, HALF),
    )
    return Case(source, local, [(), (("B",),)], (("B",),))


def outer(order: str = "1, 0", tile: int = 12, rows: str = "h") -> Case:
    """A product with all of another; it has the merged dimension, in halves."""

    def made(x: str, count: int) -> str:
        types = f"(tensor<{count}xf64>, tensor<5xf64>) -> tensor<{count}x5xf64>"
        return (
            f"%r = stablehlo.dot_general %{x}, %y, contracting_dims = [] x [] : {types}"
        )

    given = {"x": "8x3xf64", "y": "5xf64"}
    source = function(given, "24x5xf64", merged(), made("f", 24))
    local = function(
        given,
        OTHER,
        *(merged(order), half(tile), permute("g", "h", SWAPPED, HALF)),
        made(rows, 12),
    )
    return Case(source, local, [(), ()], (("B",),))


RIGHT = {"summed": summed(), "each": each(), "outer": outer()}


@pytest.mark.parametrize("name", RIGHT)
def test_merged_and_cut_elsewhere(name: str) -> None:
    assert is_proved(RIGHT[name])


WRONG = {
    "summed in another order": summed(order="0, 1"),
    "summed over the first half twice": summed(tile=0),
    "summed over overlapping rows": summed(tile=8),
    "the largest": summed(op="maximum"),
    "with another device's rows": summed(other="z"),
    "each in another order": each(order="0, 1"),
    "each of the first half": each(tile=0),
    "another op": each(kind="add"),
    "the other way round": each(operands=("y", "h")),
    "each with another device's": each(operands=("h", "z")),
    "outer in another order": outer(order="0, 1"),
    "outer of other rows": outer(tile=11),
    "outer of another device's": outer(rows="g"),
    "said to be whole": outer()._replace(made=()),
}


@pytest.mark.parametrize("name", WRONG)
def test_merged_otherwise(name: str) -> None:
    assert not is_proved(WRONG[name])


def exchanged(pairs: list[list[int]], tile: str = "h") -> Case:
    """A half of merged rows from another device, and the sum of all."""
    source = function(
        {"x": "8x3xf64", "y": "24xf64"},
        "24xf64",
        *(merged(), binary("add", "f", "y", "24xf64")),
    )
    local = function(
        {"x": "8x3xf64", "y": HALF},
        HALF,
        *(merged(), device("n", 12), constant("c", 12, "i32")),
        "%at = stablehlo.subtract %c, %n : tensor<i32>",
        "%h = stablehlo.dynamic_slice %f, %at, sizes = [12]"
        " : (tensor<24xf64>, tensor<i32>) -> tensor<12xf64>",
        permute("g", "h", pairs, HALF),
        binary("add", tile, "y", HALF),
    )
    return Case(source, local, [(), (("B",),)], (("B",),))


def test_merged_rows_of_another_device() -> None:
    assert is_proved(exchanged(SWAPPED, "g"))
    assert not is_proved(exchanged(SWAPPED, "h"))
    assert not is_proved(exchanged([[0, 1]], "g"))
    assert not is_proved(exchanged([[0, 0], [1, 1]], "g"))
