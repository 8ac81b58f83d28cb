"""From one element type to another: exactly, or by what nothing is known of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from partir.verify.classes.types import widens
from partir.verify.elements import integers
from partir.verify.elements.bounds import FiniteBounds
from partir.verify.elements.cases import GARBAGE, Algebra, Cases, Scalar
from partir.verify.elements.field import MODULUS
from partir.verify.elements.monoids import WITHOUT_SIGN
from partir.verify.elements.numbers import Numbers
from partir.verify.elements.rings import (
    Complex,
    Floats,
    Integers,
    Plain,
    Ring,
    Truths,
    part_of,
    ring_of,
)
from partir.verify.elements.summed import WidenedSums
from partir.verify.layouts.layout import Unreadable

Run = Callable[[Plain], Scalar]


class Converting:
    """Conversions of one proof."""

    def __init__(
        self,
        algebra: Algebra,
        numbers: Numbers,
        bounds: FiniteBounds,
        summed: WidenedSums,
    ) -> None:
        """Of its formulas."""
        self.algebra, self.numbers, self.bounds = algebra, numbers, bounds
        self._summed = summed
        self._narrower: dict[tuple[str, str, int], int] = {}
        self._origins: dict[tuple[str, int], tuple[str, int]] = {}

    def run(self, before: str, after: str) -> Run:
        """What plain formulas become."""
        made = self._made(before, after)
        return lambda x: GARBAGE if x is GARBAGE else made(x)

    def _made(self, before: str, after: str) -> Run:
        old, new = ring_of(before), ring_of(after)
        if isinstance(new, Complex):
            return self._to_complex(before, after, old)
        if isinstance(old, Complex):
            if isinstance(new, Truths):
                raise Unreadable("whether a complex number is zero")
            real = self._made(part_of(before), after)
            return lambda x: real(x[0])
        if isinstance(new, Truths):
            return self._to_truth(before, old)
        if isinstance(old, Truths):
            return self._from_truth(after, new)
        if isinstance(new, Integers):
            return self._to_integer(before, after, old, new)
        return self._to_float(before, after, old)

    def narrower(
        self, dtype: str, formulas: Sequence[int]
    ) -> tuple[str, list[int]] | None:
        """Floats before they were widened, if all were, or may have been, of a type."""
        found = [self._origins.get((dtype, one)) for one in formulas]
        types = {one[0] for one in found if one is not None}
        if len(types) != 1:
            return None
        (before,) = types
        made = []
        for one, origin in zip(formulas, found, strict=True):
            if origin is None and not self._is_of(before, one):
                return None
            made.append(one if origin is None else origin[1])
        return before, made

    def _is_of(self, dtype: str, formula: int) -> bool:
        """Whether a number is known, and of a type."""
        number = self.numbers.number(formula)
        return number is not None and self.numbers.rounded(number, dtype) == number

    def _to_complex(self, before: str, after: str, old: Ring) -> Run:
        if isinstance(old, Complex):
            part = self._part(part_of(before), part_of(after))
            return lambda x: (part(x[0]), part(x[1]))
        real = self._part(before, part_of(after))
        return lambda x: (real(x), 0)

    def _part(self, before: str, after: str) -> Run:
        return (lambda x: x) if before == after else self._made(before, after)

    def _to_truth(self, dtype: str, old: Ring) -> Run:
        """Whether something is not zero."""
        algebra = self.algebra
        if isinstance(old, Integers):
            return lambda x: integers.compared(algebra, old, "NE", x, old.zero)

        def run(x: Plain) -> Scalar:
            known = self.numbers.read(x, dtype)
            if known is not None:
                return (0, int(known != 0))
            made = algebra.truth("is zero", dtype, x)
            return Cases(made.unknown, made.starts, made.values[::-1])

        return run

    def _from_truth(self, dtype: str, new: Ring) -> Run:
        """Zero or one; nobody says what, in a type that has no zero."""
        if dtype in WITHOUT_SIGN:
            point, note = self.algebra.point, self.algebra.note_far
            return lambda x: note(point.unknown("of a truth", dtype, x))
        if isinstance(new, Floats):
            return lambda x: (x[0] + x[1]) % MODULUS
        return lambda x: x

    def _wider(self, x: Plain, old: Integers, new: Integers) -> Scalar:
        """The same number: from where the narrower type wraps round, another one."""
        unknown = self.algebra.unknown_of(x[0], old)
        base = self.algebra.wider(unknown)
        starts = integers.starts_from([old.least - x[1]], old, unknown)
        values = [
            (base, new.wrapped(old.typed(x[1] + start) - start)) for start in starts
        ]
        return self.algebra.cases(unknown, starts, values, new)

    def _to_integer(self, before: str, after: str, old: Ring, new: Integers) -> Run:
        algebra, point = self.algebra, self.algebra.point

        def of_integer(x: Plain) -> Scalar:
            known = old.known(x)  # type: ignore[union-attr]
            if known is not None:
                return new.number(known)
            if new.bits <= old.bits:  # type: ignore[union-attr]
                return algebra.narrowed(x[0], new.bits), new.wrapped(x[1])
            return self._wider(x, old, new)  # type: ignore[arg-type]

        def of_float(x: Plain) -> Plain:
            known = self.numbers.read(x, before)
            if isinstance(known, Fraction) and new.least <= known <= new.largest:
                return new.number(int(known))
            return new.unknown(point, "to integer", before, after, x)

        return of_integer if isinstance(old, Integers) else of_float

    def _to_float(self, before: str, after: str, old: Ring) -> Run:
        numbers, point = self.numbers, self.algebra.point

        def run(x: Plain) -> Plain:
            known: float | Fraction | None
            if isinstance(old, Integers):
                known = old.known(x)
            else:
                known = numbers.read(x, before)
            again = self._narrower.get((after, before, x))
            if again is not None:  # there and back
                return again
            if numbers.is_none(x) and x != numbers.special["nan"]:
                return numbers.another("to float", before, after, x)
            if known is not None and (known != known or float(known) == known):
                return numbers.formula(numbers.rounded(known, after))
            made = self._widened_sum(before, after, old, x)
            if made is None:
                made = point.unknown("to float", before, after, x)
            if x in self.algebra.far:
                self.algebra.far.add(made)
            if isinstance(old, Integers):
                self.bounds.note(made, after, float(old.count))
            elif widens(before, after):
                self._narrower[before, after, made] = x
                self._origins[after, made] = (before, x)
            return made

        return run

    def _widened_sum(
        self, before: str, after: str, old: Ring, x: Plain
    ) -> Plain | None:
        """What is added up before it is widened, by its members; else None."""
        if not isinstance(old, Floats):
            return None
        return self._summed.widened(before, after, x)
