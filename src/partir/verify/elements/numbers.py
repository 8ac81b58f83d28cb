"""Real numbers that are known, and those that are no numbers: infinities and nan."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction

import ml_dtypes
import numpy as np

from partir.ir.types import numpy_name
from partir.verify.elements.cases import Algebra
from partir.verify.elements.field import of_fraction

assert ml_dtypes  # gives numpy the narrow types by name
_SPECIAL = ("inf", "-inf", "nan", "-0.0")


class Numbers:
    """Known numbers of one proof, as formulas and back."""

    def __init__(self, algebra: Algebra) -> None:
        """At the same point."""
        self._algebra, point = algebra, algebra.point
        self.special = {name: point.unknown("no number", name) for name in _SPECIAL}
        algebra.far |= {self.special[name] for name in _SPECIAL[:3]}
        algebra.unsigned[self.special["-0.0"]] = 0
        self._names = {formula: float(name) for name, formula in self.special.items()}
        self._known: dict[int, Fraction] = {0: Fraction(0), 1: Fraction(1)}

    def formula(self, number: float | Fraction) -> int:
        """Of a number that a type has."""
        if isinstance(number, float):
            if math.isnan(number):
                return self.special["nan"]
            if math.isinf(number):
                return self.special["inf" if number > 0 else "-inf"]
            if number == 0 and math.copysign(1, number) < 0:
                return self.special["-0.0"]
        exact = Fraction(number)
        made = of_fraction(exact)
        self._known[made] = exact
        return made

    def none(self, dtype: str, bits: int) -> int:
        """What is no number, by its bits, which orders tell from that of others."""
        return self.another(dtype, bits)

    def another(self, *made_by: Hashable) -> int:
        """What is no number either; nobody says which, but that it has a sign."""
        made = self._algebra.point.unknown("no number", *made_by)
        self._algebra.far.add(made)
        self._names[made] = math.nan
        return made

    def is_none(self, formula: int) -> bool:
        """Whether a formula is known to be no number."""
        return formula in self._names and math.isnan(self._names[formula])

    def known_sum(self, made: int, members: Sequence[int], dtype: str) -> int:
        """A sum, remembered if it is a known number of its type; infinite beyond."""
        known = [self._known.get(member) for member in members]
        if None not in known:
            exact = sum((one for one in known if one is not None), Fraction(0))
            rounded = self.rounded(exact, dtype)
            if rounded == exact:
                self.formula(exact)
            elif not math.isfinite(rounded):
                return self.formula(rounded)
        return made

    def number(self, formula: int) -> float | Fraction | None:
        """The number that a formula is; None if that is not known."""
        found = self._known.get(formula)
        return self._names.get(formula) if found is None else found

    def read(self, formula: int, dtype: str) -> float | Fraction | None:
        """The number that a formula is, if its type has it: else it was rounded."""
        number = self.number(formula)
        if number is None or isinstance(number, float):
            return number
        return number if self.rounded(number, dtype) == number else None

    def product(self, x: int, y: int, dtype: str) -> int | None:
        """Of two numbers that are finite and known to be of a type, as it has it."""
        one, other = (self.read(factor, dtype) for factor in (x, y))
        if one is None or other is None:
            return None
        if not math.isfinite(one) or not math.isfinite(other):
            return None
        made = Fraction(one) * Fraction(other)
        if not made:
            return self.zero(math.copysign(1.0, one) * math.copysign(1.0, other), dtype)
        return self.formula(self.rounded(made, dtype))

    def zero(self, sign: float, dtype: str) -> int:
        """A zero with a sign, if the type has such."""
        return self.formula(self.rounded(math.copysign(0.0, sign), dtype))

    def rounded(self, number: float | Fraction, dtype: str) -> float:
        """A number as a type has it."""
        kind = np.dtype(numpy_name(dtype))
        with np.errstate(all="ignore"):
            return float(np.array(float(number)).astype(kind))
