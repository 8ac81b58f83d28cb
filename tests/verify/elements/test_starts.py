"""What a reduction without a name starts from: nothing, if that is shown."""

from __future__ import annotations

import math

import pytest

import partir
from partir.verify.elements.alone import new_ops, start_counts
from partir.verify.elements.rings import ring_of
from partir.verify.elements.starts import _floats, _integers
from tests.verify.elements.test_written_out import ROWS, is_equal
from tests.verify.modules import CHANNEL, Case, constant, function, is_proved


def op(name: str, kind: str, x: str, y: str, dtype: str) -> str:
    return f"%{name} = stablehlo.{kind} %{x}, %{y} : tensor<{dtype}>"


def compared(name: str, way: str, x: str, y: str, dtype: str) -> str:
    types = f"(tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>"
    return f"%{name} = stablehlo.compare {way}, %{x}, %{y} : {types}"


def chosen(name: str, which: str, x: str, y: str, dtype: str) -> str:
    types = f"tensor<i1>, tensor<{dtype}>"
    return f"%{name} = stablehlo.select %{which}, %{x}, %{y} : {types}"


def reduced(name: str, of: str, body: list[str], dtype: str, rows: int) -> str:
    one, lines = f"tensor<{dtype}>", "\n      ".join(body)
    return f"""%{name} = "stablehlo.reduce"(%{of}, %s) ({{
    ^bb0(%a: {one}, %b: {one}):
      {lines}
      stablehlo.return %made : {one}
    }}) {{dimensions = array<i64: 0>}} : (tensor<{rows}x{dtype}>, {one}) -> {one}"""


def in_tiles(body: list[str], dtype: str, start: str) -> Case:
    """A reduction of tiles, each from the start, and then of these."""
    first = constant("s", start, dtype)
    gather = f"""%v = stablehlo.reshape %u : (tensor<{dtype}>) -> tensor<1x{dtype}>
    %w = "stablehlo.all_gather"(%v) {{all_gather_dim = 0 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL},
    use_global_device_ids}} : (tensor<1x{dtype}>) -> tensor<2x{dtype}>"""
    source = function(
        {"x": f"4x{dtype}"}, dtype, first, reduced("r", "x", body, dtype, 4)
    )
    tiles, all_ = (
        reduced(*names, body, dtype, 2) for names in (("u", "x"), ("r", "w"))
    )
    local = function({"x": f"2x{dtype}"}, dtype, first, tiles, gather, all_)
    return Case(source, local, [ROWS])


LARGE_ONES_ADD_UP = [  # and of others the largest is kept
    "%fifty = stablehlo.constant dense<50> : tensor<i32>",
    op("top", "maximum", "a", "b", "i32"),
    compared("p", "GT", "top", "fifty", "i32"),
    op("sum", "add", "a", "b", "i32"),
    chosen("made", "p", "sum", "top", "i32"),
]
LOG_OF_SUM = [
    "%c = stablehlo.exponential %a : tensor<f32>",
    "%d = stablehlo.exponential %b : tensor<f32>",
    op("e", "add", "c", "d", "f32"),
    "%made = stablehlo.log %e : tensor<f32>",
]
FIRST_IF_NOT_LESS = [
    compared("p", "GE", "a", "b", "f32"),
    compared("q", "NE", "a", "a", "f32"),
    "%o = stablehlo.or %p, %q : tensor<i1>",
    chosen("made", "o", "a", "b", "f32"),
]
FIRST_OF_EIGHT_BITS = [line.replace("f32", "f8E4M3FN") for line in FIRST_IF_NOT_LESS]
LAST_BUT_FOR_A_NUMBER = [
    "%number = stablehlo.constant dense<1234.0> : tensor<f32>",
    compared("p", "EQ", "b", "number", "f32"),
    chosen("made", "p", "a", "b", "f32"),
]
LAST_OF_EIGHT_BITS = [
    line.replace("f32", "f8E4M3FN").replace("1234.0", "-416.0")
    for line in LAST_BUT_FOR_A_NUMBER
]
STARTS = {
    "that counts beside large numbers": (LARGE_ONES_ADD_UP, "i32", "7", False),
    "that counts behind functions": (LOG_OF_SUM, "f32", "0.0", False),
    "that is the least": (FIRST_IF_NOT_LESS, "f32", "0xFF800000", True),
    "that counts again and again the same": (FIRST_IF_NOT_LESS, "f32", "3.5", True),
    "that nothing is less than": (FIRST_OF_EIGHT_BITS, "f8E4M3FN", "-448.0", True),
    "that counts and is least": (LAST_OF_EIGHT_BITS, "f8E4M3FN", "-448.0", False),
    "that is left out": (LAST_BUT_FOR_A_NUMBER, "f32", "1234.0", True),
    "that replaces what came before": (LAST_BUT_FOR_A_NUMBER, "f32", "1235.0", False),
}


@pytest.mark.parametrize(
    ("body", "dtype", "start", "proved"), STARTS.values(), ids=STARTS
)
def test_a_start(body: list[str], dtype: str, start: str, proved: bool) -> None:
    case = in_tiles(body, dtype, start)
    assert is_equal(case) is proved
    assert is_proved(case) is proved


def test_numbers_of_all_orders() -> None:
    """As many as there are unknown ones, before, behind and between those known."""
    byte, few = ring_of("i8"), ring_of("ui2")
    assert _integers(byte, [0, 1, 5], 1) == [-128, 0, 1, 2, 5, 6]  # type: ignore[arg-type]
    assert _integers(few, [2], 3) == [0, 1, 2, 3]  # type: ignore[arg-type]

    def rounded(number: float) -> float:
        return new_ops().numbers.rounded(number, "f8E4M3FN")

    inf, end = math.inf, 448.0
    assert _floats(rounded, [-inf], 2, inf) == [-inf, 0.0, 1.0]
    assert _floats(rounded, [1.0, 2.0], 1, inf) == [0.0, 1.0, 1.5, 2.0, 4.0]
    assert _floats(rounded, [1.0, 1.125], 1, inf) is None  # there is none between
    assert _floats(rounded, [448.0], 1, inf) is None
    assert _floats(rounded, [-448.0], 1, end) == [-448.0, 0.0]
    assert _floats(rounded, [416.0, 448.0], 1, end) is None


def test_what_can_not_be_read_counts() -> None:
    case = in_tiles(LOG_OF_SUM, "f32", "0.0")
    program = partir.load(case.source)
    (reducer,) = next(
        op.signature.lambdas for op in program.ops if op.kind == "stablehlo.reduce"
    )
    assert start_counts(reducer, ["0.0"])
    assert start_counts(reducer, [None])
