"""What pads one side of a product is a factor of the zeros that pad the other one.

Rows of values are believed to be finite. A number in place of rows may be infinite for
certain, and so may what is made of it: the logarithm of zeros, for one.
"""

from __future__ import annotations

import pytest

from tests.verify.elements.test_wrong import twice, whole
from tests.verify.elements.test_wrong_numbers import dot
from tests.verify.modules import constant, is_proved, unary

SHORT, LONG = "3xf32", "4xf32"


def padded(made: str, operand: str, by: str) -> str:
    types = f"(tensor<{SHORT}>, tensor<f32>) -> tensor<{LONG}>"
    edges = "low = [0], high = [1], interior = [0]"
    return f"%{made} = stablehlo.pad %{operand}, %{by}, {edges} : {types}"


@pytest.mark.parametrize(
    ("number", "function", "proved"),
    [
        ("1.0", "optimization_barrier", True),
        ("0x7F800000", "optimization_barrier", False),
        ("0x7FC00000", "optimization_barrier", False),
        ("0.0", "log", False),
        ("0.0", "rsqrt", False),
        ("1000.0", "exponential", False),
        ("0.0", "exponential", True),
        ("0.0", "tanh", True),
        ("2.0", "sqrt", True),
        ("-2.0", "sqrt", False),
    ],
)
def test_padding_is_a_factor(number: str, function: str, proved: bool) -> None:
    def body(rows: str, x: str, y: str) -> list[str]:
        same = f"%f = stablehlo.optimization_barrier %{x} : tensor<{rows}>"
        plain = function == "optimization_barrier"
        made = same if plain else unary("f", function, x, rows, rows)
        return [made, dot("s", "f", y, rows), twice("r", "s", "f32")]

    pads = [
        constant("zero", "0.0", "f32"),
        constant("k", number, "f32"),
        padded("a", "x", "k"),
        padded("b", "y", "zero"),
    ]
    given = {"x": SHORT, "y": SHORT}
    source, local = body(SHORT, "x", "y"), [*pads, *body(LONG, "a", "b")]
    assert is_proved(whole(given, "f32", source, local)) is proved
