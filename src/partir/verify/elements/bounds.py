"""Floats that are finite for certain, and how far they are from zero at most.

A sum over devices moves past a factor only if that is finite: an infinite one makes an
infinity of a sum, but nan of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from partir.verify.classes.finite import LARGEST, ROUNDING
from partir.verify.elements.numbers import Numbers


class FiniteBounds:
    """What is known about formulas of one proof."""

    def __init__(self, numbers: Numbers) -> None:
        """Known numbers are bounded by themselves."""
        self._numbers = numbers
        self._known: dict[int, float] = {}

    def of(self, formula: int) -> float | None:
        """The largest that a float may be; None if it may be anything."""
        number = self._numbers.number(formula)
        if number is None:
            return self._known.get(formula)
        return abs(float(number)) if math.isfinite(number) else None

    def note(self, formula: int, dtype: str, bound: float) -> None:
        """Remember a bound, if the type has room for it and some rounding."""
        if bound <= ROUNDING * LARGEST.get(dtype, 0.0):
            self._known[formula] = min(bound, self._known.get(formula, bound))

    def all_of(self, formulas: Sequence[int]) -> list[float] | None:
        """FiniteBounds of all; None if one has none."""
        found = [self.of(one) for one in formulas]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else None
