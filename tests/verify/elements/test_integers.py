"""Integers of few bits, for all numbers that they can be."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.verify.elements.alone import new_ops
from partir.verify.elements.cases import Cases
from partir.verify.elements.places import NOWHERE, clamped, within
from partir.verify.elements.rings import Integers, ring_of

DTYPES = ("i4", "ui4", "i8", "ui8")
WAYS: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operator, name.lower())
    for name in ("EQ", "NE", "LT", "LE", "GT", "GE")
}


class Unknown:
    """An unknown integer of a type, and what formulas with it are for each number."""

    def __init__(self, dtype: str) -> None:
        self.ops, self.dtype = new_ops(), dtype
        ring = ring_of(dtype)
        assert isinstance(ring, Integers)
        self.ring = ring
        self.formula = ring.unknown(self.ops.algebra.point, "x")

    def run(self, name: str, out: str, *args: Any, **attrs: str) -> Any:
        types = [tensor((), dtype) for dtype, _ in args]
        kind = f"stablehlo.{name}"
        signature = Signature.of(kind, attrs, tuple(types), (tensor((), out),))
        run = self.ops.run(signature)
        assert run is not None
        return run(*(value for _, value in args))

    def at(self, scalar: Any, number: int, dtype: str) -> int:
        """What a formula is if the unknown integer is a number."""
        ring, wide = ring_of(dtype), self.ops.algebra._narrow
        assert isinstance(ring, Integers)
        while type(scalar) is Cases:
            assert scalar.unknown == (self.formula[0], self.ring.bits)
            scalar = scalar.at(number % self.ring.count)
        base, rest = scalar
        if base in wide:
            return ring.typed(number % self.ring.count + rest)
        assert base in (0, self.formula[0])
        return ring.typed((number if base else 0) + rest)

    def all(self) -> range:
        return range(self.ring.least, self.ring.largest + 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_hold_where_they_do(dtype: str, way: str) -> None:
    x = Unknown(dtype)
    direction = f"#stablehlo<comparison_direction {way}>"
    for shift in (0, 3, -5):
        value = x.ring.add(x.formula, x.ring.number(shift))
        for bound in (x.ring.least, -1, 0, 6, x.ring.largest):
            other = x.ring.number(bound)
            sides = ((dtype, value), (dtype, other))
            held = x.run("compare", "i1", *sides, comparison_direction=direction)
            for number in x.all():
                left, right = x.ring.typed(number + shift), x.ring.typed(bound)
                assert x.at(held, number, "i1") == WAYS[way](left, right)


@pytest.mark.parametrize("wide", ["i8", "ui8", "i32", "ui16"])
@pytest.mark.parametrize("dtype", ["i4", "ui4"])
def test_wider_types_have_the_same_numbers(dtype: str, wide: str) -> None:
    """And what is shifted there, and taken back, wraps round as it should."""
    x = Unknown(dtype)
    ring = ring_of(wide)
    assert isinstance(ring, Integers)
    value = x.ring.add(x.formula, x.ring.number(5))
    made = x.run("convert", wide, (dtype, value))
    moved = x.run("subtract", wide, (wide, made), (wide, ring.number(9)))
    back = x.run("convert", dtype, (wide, moved))
    for number in x.all():
        whole = x.ring.typed(number + 5)
        assert x.at(made, number, wide) == ring.typed(whole)
        assert x.at(moved, number, wide) == ring.typed(whole - 9)
        assert x.at(back, number, dtype) == x.ring.typed(whole - 9)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_with_a_number(dtype: str, name: str) -> None:
    x = Unknown(dtype)
    pick = max if name == "maximum" else min
    for bound in (x.ring.least, 0, 6, x.ring.largest):
        made = x.run(name, dtype, (dtype, x.formula), (dtype, x.ring.number(bound)))
        for number in x.all():
            assert x.at(made, number, dtype) == pick(number, bound)


@pytest.mark.parametrize("dtype", DTYPES)
def test_places_are_the_nearest_or_nowhere(dtype: str) -> None:
    x = Unknown(dtype)
    value = x.ring.add(x.formula, x.ring.number(-3))
    for most in (0, 4, 30):
        near = clamped(x.ops.algebra, x.ring, value, most)
        there = within(x.ops.algebra, x.ring, value, most)
        for number in x.all():
            place = x.ring.typed(number - 3)
            found = [
                one.at(number % x.ring.count) if type(one) is Cases else one
                for one in (near, there)
            ]
            inside = place if 0 <= place <= most else NOWHERE
            assert found == [min(max(place, 0), most), inside]
