"""Integers of few bits that travel in wider types: what comes back, what does not."""

from __future__ import annotations

from typing import Any

import pytest

from partir.verify.elements.alone import new_ops
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import ring_of


def unknowns(ops: Elementwise, dtype: str) -> list[Any]:
    ring = ring_of(dtype)
    return [ring.unknown(ops.algebra.point, "x", number) for number in range(3)]


def total(ops: Elementwise, monoid: str, dtype: str, members: list[Any]) -> Any:
    return ops.monoids.total(monoid, dtype, ring_of(dtype), members)


def there_and_back(
    ops: Elementwise, monoid: str, types: tuple[str, str, str], more: list[int]
) -> Any:
    """Reduced in a wider type, beside known numbers."""
    narrow, wide, last = types
    members = [ops.convert(narrow, wide)(x) for x in unknowns(ops, narrow)]
    members += [ring_of(wide).number(n) for n in more]  # type: ignore[union-attr]
    halves = [total(ops, monoid, wide, part) for part in (members[:2], members[2:])]
    return ops.convert(wide, last)(total(ops, monoid, wide, halves))


def in_few_bits(ops: Elementwise, monoid: str, dtype: str, more: list[int]) -> Any:
    known = [ring_of(dtype).number(n) for n in more]  # type: ignore[union-attr]
    return total(ops, monoid, dtype, [*unknowns(ops, dtype), *known])


def same(ops: Elementwise, x: Any, y: Any, dtype: str) -> bool:
    flat, ring = ops.algebra.flat, ring_of(dtype)
    return bool(flat(x, ring) == flat(y, ring))


@pytest.mark.parametrize("monoid", ["sum", "product", "max", "min", "and", "or", "xor"])
@pytest.mark.parametrize("types", [("i2", "i8"), ("ui4", "ui8"), ("i8", "i32")])
def test_what_is_reduced_in_wider_integers(monoid: str, types: tuple[str, str]) -> None:
    ops, (narrow, wide) = new_ops(), types
    made = there_and_back(ops, monoid, (narrow, wide, narrow), [1])
    assert same(ops, made, in_few_bits(ops, monoid, narrow, [1]), narrow)


@pytest.mark.parametrize("monoid", ["sum", "product", "xor"])
def test_last_bits_of_numbers_that_are_too_large(monoid: str) -> None:
    ops = new_ops()
    made = there_and_back(ops, monoid, ("i2", "i8", "i2"), [5])
    assert same(ops, made, in_few_bits(ops, monoid, "i2", [1]), "i2")


@pytest.mark.parametrize("monoid", ["max", "min"])
def test_an_order_that_another_type_does_not_keep(monoid: str) -> None:
    """-1 is the largest of 8 bits without a sign."""
    ops = new_ops()
    made = there_and_back(ops, monoid, ("i2", "ui8", "i2"), [])
    assert not same(ops, made, in_few_bits(ops, monoid, "i2", []), "i2")


def test_an_extreme_beside_a_number_that_few_bits_do_not_have() -> None:
    ops = new_ops()
    made = there_and_back(ops, "max", ("i2", "i8", "i2"), [6])
    assert not same(ops, made, in_few_bits(ops, "max", "i2", [-2]), "i2")


@pytest.mark.parametrize("monoid", ["sum", "product"])
def test_more_bits_than_are_known(monoid: str) -> None:
    ops = new_ops()
    made = there_and_back(ops, monoid, ("i2", "i8", "i4"), [1])
    few = ops.convert("i2", "i4")(in_few_bits(ops, monoid, "i2", [1]))
    assert not same(ops, made, few, "i4")


@pytest.mark.parametrize(("monoid", "sign"), [("max", 1), ("min", -1)])
def test_an_extreme_beside_numbers_that_few_bits_do_not_have(
    monoid: str, sign: int
) -> None:
    """They change nothing, or nothing else does; in tiles as in the whole."""
    ops, ring = new_ops(), ring_of("i32")
    wide = [ops.convert("i8", "i32")(x) for x in unknowns(ops, "i8")]
    one, near, far = (ring.number(sign * n) for n in (1, -1000, 1000))  # type: ignore[union-attr]
    start = ring.number(ring.least if sign > 0 else ring.largest)  # type: ignore[union-attr]
    want = total(ops, monoid, "i32", [*wide, one])
    tiles = [[start, *wide[:2]], [start, wide[2], near, one]]
    parts = [total(ops, monoid, "i32", tile) for tile in tiles]
    assert total(ops, monoid, "i32", [start, *wide, one]) == want
    assert total(ops, monoid, "i32", parts) == want
    assert total(ops, monoid, "i32", [*wide, near, far, one]) == far
    assert total(ops, monoid, "i32", [*wide, far]) != want
