"""Functions of known numbers: some are infinite, and of others it is known where.

They stay functions of which nothing is known. But ``log 0`` is infinite for certain,
and zero times that is no zero; so a function of known numbers counts as infinite if it
is, or if nobody says what it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from partir.verify.classes.known_functions import ROOM, computed
from partir.verify.elements.bounds import FiniteBounds
from partir.verify.elements.cases import Algebra
from partir.verify.elements.numbers import Numbers
from partir.verify.elements.rings import Plain, part_of

_DIVIDES = frozenset({"stablehlo.divide", "stablehlo.remainder"})


class KnownFunctions:
    """About where functions of known numbers are, in one proof."""

    def __init__(
        self, algebra: Algebra, numbers: Numbers, bounds: FiniteBounds
    ) -> None:
        """Nothing yet."""
        self.algebra, self.numbers, self.bounds = algebra, numbers, bounds
        self._about: dict[int, float] = {}

    def note(
        self, kind: str, made: Plain, out: str, args: Sequence[Plain], given: str
    ) -> Plain:
        """A function of floats, as far off as it may be for certain."""
        values = [self._value(one, given) for one in args]
        if kind in _DIVIDES and values[-1] == 0:
            return self.algebra.note_far(made)
        if None in values:
            return made
        found = computed(kind, values)
        if found is None:
            return self.algebra.note_far(made)
        if not isinstance(made, tuple):
            return self._note(made, out, found)
        for part, value in zip(made, (found.real, found.imag), strict=True):
            self._note(part, part_of(out), value)
        return made

    def _note(self, made: int, dtype: str, found: Any) -> int:
        value = self.numbers.rounded(float(found.real), dtype)
        if not math.isfinite(value):
            self.algebra.note_far(made)
        else:
            self._about[made] = value
            self.bounds.note(made, dtype, ROOM * abs(value))
        return made

    def _value(self, x: Plain, dtype: str) -> Any:
        """About where a number is, if that is known."""
        if isinstance(x, tuple):
            parts = [self._value(one, part_of(dtype)) for one in x]
            return None if None in parts else complex(*parts)
        known = self.numbers.read(x, dtype)
        if known is None and self.bounds.of(x) == 0:
            return 0.0
        return self._about.get(x) if known is None else float(known)
