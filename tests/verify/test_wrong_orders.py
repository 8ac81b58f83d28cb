"""Floats as integers that are in another order: a maximum of these is another one."""

from __future__ import annotations

import pytest

from tests.verify.modules import Case, all_reduce, constant, function, is_proved, unary

pytestmark = pytest.mark.quick

S, F = "1xi32", "1xf32"


def turned(name: str, operand: str, shift: str) -> list[str]:
    """`%name`, the integer with its bits turned round if it is negative."""
    return [
        f"%{name}s = stablehlo.shift_right_arithmetic {shift} : tensor<{S}>",
        f"%{name}m = stablehlo.and %{name}s, %rest : tensor<{S}>",
        f"%{name} = stablehlo.xor %{operand}, %{name}m : tensor<{S}>",
    ]


@pytest.mark.parametrize(
    ("there", "back", "proved"),
    [
        ("%b, %w", "%q, %w", True),
        ("%w, %b", "%q, %w", False),
        ("%b, %w", "%w, %q", False),
    ],
)
def test_what_is_shifted_is_not_by_how_much(
    there: str, back: str, proved: bool
) -> None:
    local = function(
        {"x": F},
        "f32",
        constant("w", 31, S),
        constant("rest", 2**31 - 1, S),
        unary("b", "bitcast_convert", "x", F, S),
        *turned("t", "b", there),
        f"%nan = stablehlo.compare NE, %x, %x : (tensor<{F}>, tensor<{F}>)"
        " -> tensor<1xi1>",
        f"%o = stablehlo.select %nan, %rest, %t : tensor<1xi1>, tensor<{S}>",
        all_reduce("q", "o", "maximum", S),
        *turned("u", "q", back),
        unary("f", "bitcast_convert", "u", S, F),
        unary("r", "reshape", "f", F, "f32"),
    )
    source = function(
        {"x": "2xf32"},
        "f32",
        constant("z", "0xFF800000", "f32"),
        "%r = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across "
        "dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>",
    )
    assert is_proved(Case(source, local, [(("B",),)])) is proved
