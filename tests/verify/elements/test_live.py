"""Values that results are made of: all others are not written out."""

from __future__ import annotations

import pytest

import partir
from partir.verify.elements.live import live_values
from tests.verify.elements.test_written_out import ROWS, is_equal, summed
from tests.verify.modules import Case, all_reduce, constant, function

LOOP = """
func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<3> : tensor<i32>
  %w:4 = stablehlo.while(%i = %zero, %a = %x, %b = %y, %c = %x)
      : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
   cond {
    %on = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %on : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %more = stablehlo.add %a, %b : tensor<4xf32>
    %unread = stablehlo.multiply %b, %b : tensor<4xf32>
    %last = stablehlo.cosine %c : tensor<4xf32>
    stablehlo.return %next, %more, %b, %last
        : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#3 : tensor<4xf32>, tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("result", "ops"), [(0, ["add", "add"]), (1, ["add", "cosine"])]
)
def test_what_loops_carry_is_live_if_it_is_read(result: int, ops: list[str]) -> None:
    program = partir.load(LOOP)
    live = live_values(program, [program.results[result].value])
    assert live is not None
    found = [
        op.signature.name
        for op in program.ops
        if op.operands and not op.regions and not live.values.isdisjoint(op.results)
    ]
    assert sorted(found) == sorted([*ops, "compare"])
    both = live_values(program, [port.value for port in program.results])
    assert both is not None
    assert live.elements < both.elements


def test_more_elements_than_anybody_would_look_at() -> None:
    program = partir.load(LOOP)
    values = [port.value for port in program.results]
    live = live_values(program, values)
    assert live is not None
    assert live_values(program, values, live.elements) == live
    assert live_values(program, values, live.elements - 1) is None


def with_more(start: str = "0.0", count: int = 64) -> Case:
    """A sum over devices, beside a large value that nobody reads."""
    square = (
        f"%y = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<2xf32>)"
        f" -> tensor<2x{count}xf32>"
    )
    wide = square.replace("2xf32", "4xf32").replace(f"2x{count}", f"4x{count}")
    last = "%r = stablehlo.add %t, %s : tensor<f32>"
    source = function(
        {"x": "4xf32"},
        "f32",
        constant("z", "0.0", "f32"),
        wide,
        summed("x", "4xf32", "f32"),
        constant("t", "1.0", "f32"),
        last,
    )
    local = function(
        {"x": "2xf32"},
        "f32",
        constant("z", start, "f32"),
        square,
        summed("x", "2xf32", "f32").replace("%s =", "%part ="),
        all_reduce("s", "part", "add", "f32"),
        constant("t", "1.0", "f32"),
        last,
    )
    return Case(source, local, [ROWS])


def test_a_large_value_that_nobody_reads() -> None:
    assert is_equal(with_more(), most=100)
    assert not is_equal(with_more(start="1.0"), most=100)


def test_a_small_program_that_is_too_large() -> None:
    assert is_equal(with_more(), most=20)
    assert not is_equal(with_more(), most=8)
