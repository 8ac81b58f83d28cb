"""How far known factors have led from what they multiply: out of a type's range or not.

Numbers are rounded alike wherever they are in a type's range, but not at its ends:
``x * 2**-100 * 2**-100 * 2**200`` is zero, and ``x + 2**100 - 2**100`` is, too. So
factors are numbers, of which some may be the inverse of others, only as long as all of
them together are far from these ends; and so are numbers that something is added to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import ml_dtypes
import numpy as np

from partir.ir.types import numpy_name
from partir.verify.elements.cases import Algebra
from partir.verify.elements.field import MINUS, MODULUS
from partir.verify.elements.numbers import Numbers

Scale = tuple[float, float]  # logarithms of the least and the largest factor
_ONE: Scale = (0.0, 0.0)


class Scales:
    """What is known of formulas of one proof."""

    def __init__(self, algebra: Algebra, numbers: Numbers) -> None:
        """Known numbers are so many times one."""
        self._algebra, self._numbers = algebra, numbers
        self._known: dict[int, Scale] = {}

    def product(self, dtype: str, x: int, y: int) -> int:
        """Of two that are finite: a number that leads too far is a name."""
        scale = self._within(dtype, (x,), (y,))
        one, other = (self.factor(a, b, far=scale is None) for a, b in ((x, y), (y, x)))
        made = one * other % MODULUS
        if scale is None and (one, other) == (x, y):  # no number alone
            made = made * self._algebra.point.unknown("too far", dtype) % MODULUS
        self._note(made, scale or self._rest(x, y))
        return made

    def parts(
        self, dtype: str, x: Sequence[int], y: Sequence[int]
    ) -> list[Sequence[int]]:
        """Two complex factors, one of which is known; as names if it leads too far."""
        if self._within(dtype, x, y) is not None:
            return [x, y]
        made = []
        for one, other in ((x, y), (y, x)):
            known = None not in map(self._numbers.number, one)
            alone = known and None in map(self._numbers.number, other)
            made.append([self._name(part) if alone else part for part in one])
        if made == [[*x], [*y]]:
            name = self._algebra.point.unknown("too far", dtype)
            made[0] = [part * name % MODULUS for part in x]
        return [*made]

    def note_parts(
        self, dtype: str, made: Sequence[int], x: Sequence[int], y: Sequence[int]
    ) -> None:
        """Remember how many times something else a complex product is."""
        scale = self._within(dtype, x, y)
        for part in made:
            self._note(part, scale or _ONE)

    def note_sum(self, made: int, members: Sequence[int]) -> None:
        """A sum is as far off as what is added up."""
        if any(member in self._known for member in members):
            self._note(made, _together(*map(self._of, members)))

    def added(self, dtype: str, members: Sequence[int]) -> list[int]:
        """Members of a sum: a number near an end, beside others, is a name.

        What is added to it is rounded away, and comes not back when it is subtracted.
        """
        known = [self._numbers.number(member) for member in members]
        if None not in known:
            return [*members]
        return [
            self._name(member)
            if isinstance(number, Fraction) and number and _log(number) > _room(dtype)
            else member
            for member, number in zip(members, known, strict=True)
        ]

    def factor(self, x: int, other: int, far: bool = False) -> int:
        """A factor of another one: a negative number as negatives of that are."""
        number = self._numbers.number(x)
        if number is None or self._numbers.number(other) is not None:
            return x
        if far:
            return self._name(x)
        return x if number >= 0 else -x * MINUS % MODULUS

    def _name(self, x: int) -> int:
        """A number that nothing is the inverse of."""
        number = self._numbers.number(x)
        if not number:
            return x
        name = self._algebra.point.unknown("factor", "of the size", abs(number))
        return name if number > 0 else name * MINUS % MODULUS

    def _of(self, formula: int) -> Scale:
        """How many times something else a formula is, as far as that is known."""
        number = self._numbers.number(formula)
        if isinstance(number, Fraction):
            return (_log(number),) * 2 if number else _ONE
        return self._known.get(formula, _ONE)

    def _rest(self, x: int, y: int) -> Scale:
        """That of a product without the number that has become a name."""
        left = [one for one in (x, y) if self._numbers.number(one) is None]
        return self._of(left[0]) if len(left) == 1 else _ONE

    def _within(self, dtype: str, x: Sequence[int], y: Sequence[int]) -> Scale | None:
        """That of a product; None if it is near an end of its type."""
        sides = (_together(*map(self._of, one)) for one in (x, y))
        least, largest = (a + b for a, b in zip(*sides, strict=True))
        room = _room(dtype)
        return (least, largest) if -room <= least <= largest <= room else None

    def _note(self, formula: int, scale: Scale) -> None:
        if scale != _ONE or formula in self._known:
            before = self._known.get(formula, scale)
            self._known[formula] = _together(before, scale)


def _together(*scales: Scale) -> Scale:
    """Of several, which are added up."""
    return min(low for low, _ in scales), max(high for _, high in scales)


def _log(number: Fraction) -> float:
    """The logarithm of a number's size, which may be larger than a float."""
    return math.log2(abs(number.numerator)) - math.log2(number.denominator)


@lru_cache(maxsize=64)
def _room(dtype: str) -> float:
    """Halfway to the ends of a type, from one."""
    ends = ml_dtypes.finfo(np.dtype(numpy_name(dtype)))  # type: ignore[no-untyped-call]  # it has none
    least, largest = (math.log2(float(n)) for n in (ends.smallest_normal, ends.max))
    return max(0.0, min(-least, largest) / 2)
