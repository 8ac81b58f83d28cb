"""Floats without a sign, whose extremes over devices are those of their bits."""

from __future__ import annotations

import pytest

from tests.verify.elements.test_written_out import ROWS, is_equal
from tests.verify.modules import Case, all_reduce, constant, function, unary

DTYPE = "f8E8M0FNU"
ENDS = {"maximum": "0x00", "minimum": "0xFE"}


def reduced(name: str, op: str, rows: int) -> str:
    return (
        f"%{name} = stablehlo.reduce(%x init: %z) applies stablehlo.{op} across"
        f" dimensions = [0] : (tensor<{rows}x{DTYPE}>, tensor<{DTYPE}>)"
        f" -> tensor<{DTYPE}>"
    )


def extreme(
    op: str, more: int, carried: str | None = None, end: str | None = None
) -> Case:
    """Bits, and so much more, are reduced over devices, and turned back."""
    start = constant("z", ENDS[op], DTYPE)
    source = function({"x": f"4x{DTYPE}"}, DTYPE, start, reduced("r", op, 4))
    local = function(
        {"x": f"2x{DTYPE}"},
        DTYPE,
        constant("z", end or ENDS[op], DTYPE),
        reduced("own", op, 2),
        unary("bits", "bitcast_convert", "own", DTYPE, "ui8"),
        constant("more", more, "ui8"),
        "%up = stablehlo.add %bits, %more : tensor<ui8>",
        all_reduce("all", "up", carried or op, "ui8"),
        "%down = stablehlo.subtract %all, %more : tensor<ui8>",
        unary("r", "bitcast_convert", "down", "ui8", DTYPE),
    )
    return Case(source, local, [ROWS])


def test_bits_are_in_order() -> None:
    assert is_equal(extreme("maximum", 0))
    assert is_equal(extreme("minimum", 1))


@pytest.mark.parametrize(
    "wrong",
    [
        extreme("maximum", 1),  # what is no number becomes the least
        extreme("minimum", 0),  # what is no number stays the largest
        extreme("minimum", 2),
        extreme("maximum", 0, carried="minimum"),
        extreme("minimum", 1, carried="maximum"),
        extreme("maximum", 0, end="0xFE"),  # the largest changes something
        extreme("minimum", 1, end="0x00"),
        extreme("maximum", 0, end="0x01"),
    ],
)
def test_other_extremes_are_not(wrong: Case) -> None:
    assert not is_equal(wrong)
