"""Loops that carry short tiles: what lies behind their end never counts."""

from __future__ import annotations

import pytest

from tests.verify.modules import (
    Case,
    all_reduce,
    compare,
    constant,
    device,
    function,
    is_proved,
    reducer,
    unary,
)

pytestmark = pytest.mark.quick


def loop(rows: int, *body: str) -> str:
    """Three turns of `%c` becoming `%next`."""
    types = f"tensor<i32>, tensor<{rows}xf64>"
    lines = "\n      ".join(body)
    return f"""%i = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %n, %r = "stablehlo.while"(%i, %x) ({{
    ^bb0(%j: tensor<i32>, %c: tensor<{rows}xf64>):
      {compare("go", "LT", "j", "three", "i32")}
      stablehlo.return %go : tensor<i1>
  }}, {{
    ^bb0(%j: tensor<i32>, %c: tensor<{rows}xf64>):
      %j1 = stablehlo.add %j, %one : tensor<i32>
      {lines}
      stablehlo.return %j1, %next : {types}
  }}) : ({types}) -> ({types})"""


def largest(of: str, rows: int) -> str:
    return f"""%low = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %max = "stablehlo.reduce"(%{of}, %low) {reducer("maximum", "f64")} {{
    dimensions = array<i64: 0>}} : (tensor<{rows}xf64>, tensor<f64>) -> tensor<f64>"""


def less(of: str, rows: int) -> tuple[str, str]:
    return (
        unary("all", "broadcast_in_dim|, dims = []", of, "f64", f"{rows}xf64"),
        f"%next = stablehlo.subtract %c, %all : tensor<{rows}xf64>",
    )


def short(*before: str, of: str = "c", last: int = 7, made: str = "next") -> Case:
    """Seven rows in tiles of four, the largest of all taken from each in each turn."""
    source = function(
        {"x": "7xf64"}, "7xf64", loop(7, largest("c", 7), *less("max", 7))
    )
    mask = (
        device("off", 4),
        "%k = stablehlo.iota dim = 0 : tensor<4xi32>",
        unary("offs", "broadcast_in_dim|, dims = []", "off", "i32", "4xi32"),
        "%row = stablehlo.add %k, %offs : tensor<4xi32>",
        constant("seven", last, "4xi32"),
        compare("is", "LT", "row", "seven", "4xi32"),
        constant("lows", "0xFFF0000000000000", "4xf64"),
    )
    body = (
        "%m = stablehlo.select %is, %c, %lows : tensor<4xi1>, tensor<4xf64>",
        largest(of, 4),
        all_reduce("whole", "max", "maximum", "f64"),
        *less("whole", 4),
        *before,
    )
    text = loop(4, *body).replace("return %j1, %next", f"return %j1, %{made}")
    local = function({"x": "4xf64"}, "4xf64", *mask, text)
    return Case(source, local, [(("B",),)], (("B",),))


TURNED = unary("back", "reverse|, dims = [0]", "next", "4xf64", "4xf64")


def test_short_tiles_are_carried() -> None:
    assert is_proved(short(of="m"))


@pytest.mark.parametrize(
    "case",
    [
        short(),
        short(of="m", last=8),
        short(of="m", last=6),
        short(TURNED, of="m", made="back"),
    ],
)
def test_what_is_behind_the_end_does_not_count(case: Case) -> None:
    assert not is_proved(case)
