"""Sums of floats that are widened: devices may round less often than the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from partir.verify.elements.alone import new_ops
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import ring_of
from tests.verify.elements.test_written_out import is_equal
from tests.verify.modules import Case, all_reduce, constant, function, reducer, unary

ROWS = (("B",),)
F16, F32 = "f16", "f32"


class Sums:
    """Four unknown numbers, added up and widened in some order."""

    def __init__(self, dtype: str = F16) -> None:
        self.ops: Elementwise = new_ops()
        self.dtype = dtype
        ring = ring_of(dtype)
        self.x = [ring.unknown(self.ops.algebra.point, "x", n) for n in range(4)]

    def total(self, *members: Any, dtype: str = "") -> Any:
        kind = dtype or self.dtype
        return self.ops.monoids.total("sum", kind, ring_of(kind), members)

    def wide(self, x: Any, dtype: str = F32) -> Any:
        return self.ops.convert(self.dtype, dtype)(x)

    def narrow(self, *numbers: int) -> Any:
        """Some of them, added up before they are widened."""
        return self.wide(self.total(*(self.x[n] for n in numbers)))

    def both(self, *groups: Sequence[int]) -> Any:
        """Groups of them, added up behind."""
        return self.total(*(self.narrow(*group) for group in groups), dtype=F32)


@pytest.mark.parametrize("dtype", [F16, "bf16", "f8E5M2"])
@pytest.mark.parametrize(
    "groups",
    [
        [[0, 1], [2, 3]],
        [[0], [1], [2], [3]],
        [[2, 0, 1], [3]],
    ],
)
def test_parts_of_a_sum_widened(dtype: str, groups: list[list[int]]) -> None:
    sums = Sums(dtype)
    source = sums.narrow(0, 1, 2, 3)
    sums.ops.from_now_on_of_devices()
    assert sums.both(*groups) == source


@pytest.mark.parametrize(
    ("source", "local"),
    [
        ([[0], [1]], [[0, 1]]),  # added up in the wide type
        ([[0, 1], [2, 3]], [[0, 1, 2, 3]]),
        ([[0, 1], [2, 3]], [[0, 2], [1, 3]]),
        ([[0, 1, 2]], [[0, 1], [1]]),  # twice the same
        ([[0, 1, 2]], [[0, 1], [2, 2]]),
        ([[0, 1, 2]], [[0, 1]]),  # one is left out
        ([[0, 1, 2]], [[0, 1], [2], [3]]),
    ],
)
def test_what_is_another_sum(source: list[list[int]], local: list[list[int]]) -> None:
    sums = Sums()
    made = sums.both(*source)
    sums.ops.from_now_on_of_devices()
    assert sums.both(*local) != made


def test_a_member_that_the_source_widens_by_itself() -> None:
    """It is what it is there, and so is a sum that is a part of another one."""
    sums = Sums()
    sums.narrow(0, 1, 2)
    known = [sums.narrow(0), sums.narrow(0, 1)]
    sums.ops.from_now_on_of_devices()
    assert [sums.narrow(0), sums.narrow(1, 0)] == known


@pytest.mark.parametrize("name", ["inf", "-inf", "nan"])
def test_an_infinity_among_members(name: str) -> None:
    """Both are infinite, or no number; a finite number is neither."""
    sums = Sums()
    far = sums.ops.numbers.special[name]
    source = sums.wide(sums.total(sums.x[0], sums.x[1], far))
    sums.ops.from_now_on_of_devices()
    left_out = sums.both([0], [1])
    negative = sums.total(
        sums.wide(sums.x[0]), sums.wide(sums.ops.numbers.special["-inf"]), dtype=F32
    )
    assert source not in (left_out, negative)


def test_a_narrower_type_and_one_that_is_neither() -> None:
    """What is rounded is no sum of what is rounded each by itself."""
    for before, after in [(F32, F16), (F16, "bf16"), ("bf16", F16)]:
        sums = Sums(before)
        source = sums.wide(sums.total(*sums.x[:2]), after)
        sums.ops.from_now_on_of_devices()
        parts = [sums.wide(x, after) for x in sums.x[:2]]
        assert sums.total(*parts, dtype=after) != source


def test_negatives_do_not_cancel() -> None:
    """Where x is infinite, x - x + y is no number."""
    sums = Sums()
    x, y = sums.x[:2]
    negative = sums.ops.monoids.products.negative(x, F16)
    source = sums.wide(sums.total(x, y, negative))
    sums.ops.from_now_on_of_devices()
    assert sums.wide(y) != source


def summed(operand: str, dtype: str, rows: int) -> str:
    types = f"(tensor<{rows}x{dtype}>, tensor<{dtype}>) -> tensor<{dtype}>"
    return (
        f'%s = "stablehlo.reduce"(%{operand}, %z) {reducer("add", dtype)} '
        f"{{dimensions = array<i64: 0>}} : {types}"
    )


def added(first: str, then: str) -> Case:
    """Four rows; the source widens `first`, or `then`; devices add up, then widen."""
    source = {
        "sum": [
            constant("z", "0.0", F16),
            summed("x", F16, 4),
            unary("r", "convert", "s", F16, F32),
        ],
        "widen": [
            constant("z", "0.0", F32),
            unary("w", "convert", "x", "4xf16", "4xf32"),
            summed("w", F32, 4),
            "%r = stablehlo.add %s, %z : tensor<f32>",
        ],
    }[first]
    local = {
        "sum": [
            constant("z", "0.0", F16),
            summed("x", F16, 2),
            unary("part", "convert", "s", F16, F32),
            all_reduce("r", "part", "add", F32),
        ],
        "twice": [
            constant("z", "0.0", F16),
            summed("x", F16, 2),
            unary("part", "convert", "s", F16, F32),
            all_reduce("made", "part", "add", F32),
            "%r = stablehlo.add %made, %part : tensor<f32>",
        ],
    }[then]
    given, tile = {"x": "4xf16"}, {"x": "2xf16"}
    return Case(function(given, F32, *source), function(tile, F32, *local), [ROWS])


def test_tiles_of_rows() -> None:
    assert is_equal(added("sum", "sum"))
    assert not is_equal(added("sum", "twice"))
    assert not is_equal(added("widen", "sum"))  # less precise than the source


def product(name: str, x: str, y: str, types: str) -> str:
    return (
        f"%{name} = stablehlo.dot_general %{x}, %{y}, contracting_dims = [0] x [0]"
        f" : {types}"
    )


def in_turn(last: str = "first", op: str = "add") -> Case:
    """A product in few bits, by rows in tiles, of which another one in more is made."""
    source = function(
        {"x": "4x2xbf16", "y": "4x3xbf16", "w": "2xbf16"},
        "3xf64",
        product(
            "first",
            "x",
            "y",
            "(tensor<4x2xbf16>, tensor<4x3xbf16>) -> tensor<2x3xbf16>",
        ),
        product(
            "r", "first", "w", "(tensor<2x3xbf16>, tensor<2xbf16>) -> tensor<3xf64>"
        ),
    )
    local = function(
        {"x": "2x2xbf16", "y": "2x3xbf16", "w": "2xbf16"},
        "3xf64",
        product(
            "first",
            "x",
            "y",
            "(tensor<2x2xbf16>, tensor<2x3xbf16>) -> tensor<2x3xbf16>",
        ),
        "%twice = stablehlo.add %first, %first : tensor<2x3xbf16>",
        product(
            "second", last, "w", "(tensor<2x3xbf16>, tensor<2xbf16>) -> tensor<3xf64>"
        ),
        all_reduce("r", "second", op, "3xf64"),
    )
    return Case(source, local, [ROWS, ROWS, ()])


def test_products_in_turn() -> None:
    assert is_equal(in_turn())
    assert not is_equal(in_turn(last="twice"))
    assert not is_equal(in_turn(op="maximum"))
