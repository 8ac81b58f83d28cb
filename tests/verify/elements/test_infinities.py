"""Small programs, element by element: what is made of an infinity does not vanish."""

from __future__ import annotations

import pytest

from tests.verify.elements.test_wrong import (
    PARTS,
    TWO,
    ZERO,
    F,
    binary,
    chosen,
    whole,
)
from tests.verify.modules import constant, is_proved, unary

NOTHING = [
    constant("k", "0.0", F),
    "%r = stablehlo.dot_general %s, %k, contracting_dims = [0] x [0] :"
    " (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>",
]
FAR = constant("far", "0x7F800000", F)
ONE_OF_THEM = [  # which is a table of tables
    FAR,
    chosen("t", "m", "far", "zero"),
    "%one = stablehlo.dynamic_slice %t, %i, sizes = [1] :"
    " (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>",
    unary("all", "broadcast_in_dim|, dims = [0]", "one", "1xf32", F),
]
INFINITIES = {
    "twice one": [FAR, TWO, binary("s", "multiply", "far", "two")],
    "a negative": [ZERO, *ONE_OF_THEM, unary("s", "negate", "all", F, F)],
    "a sum with zeros that have a sign": [
        constant("zero", "-0.0", F),
        *ONE_OF_THEM,
        binary("s", "add", "all", "x"),
    ],
}


@pytest.mark.parametrize("lines", INFINITIES.values(), ids=INFINITIES)
def test_zero_times_an_infinity_is_not_nothing(lines: list[str]) -> None:
    """As it is of `x`, which is believed to be finite."""
    given = {"x": F, "m": "4xi1", "i": "i32"}
    same = "%s = stablehlo.optimization_barrier %x : tensor<4xf32>"
    source = [same, *NOTHING]
    assert not is_proved(whole(given, "f32", source, [*lines, *NOTHING]))


def far_parts(*lines: str) -> list[str]:
    """A product of complex numbers with zeros."""
    types = f"(tensor<{PARTS}>, tensor<{PARTS}>) -> tensor<complex<f32>>"
    return [
        *lines,
        constant("k", "(0.0,0.0)", PARTS),
        f"%r = stablehlo.dot_general %s, %k, contracting_dims = [0] x [0] : {types}",
    ]


COMPLEX = {
    "a constant": [constant("s", "(0x7F800000,1.0)", PARTS)],
    "a part": [FAR, f"%s = stablehlo.complex %x, %far : tensor<{PARTS}>"],
    "a sum": [
        FAR,
        f"%p = stablehlo.complex %x, %far : tensor<{PARTS}>",
        binary("s", "add", "p", "z", PARTS),
    ],
}


@pytest.mark.parametrize("lines", COMPLEX.values(), ids=COMPLEX)
def test_zero_times_an_infinite_part_is_not_nothing(lines: list[str]) -> None:
    given, made = {"x": F, "z": PARTS}, "complex<f32>"
    same = f"%s = stablehlo.optimization_barrier %z : tensor<{PARTS}>"
    assert not is_proved(whole(given, made, far_parts(same), far_parts(*lines)))
