"""Products of floats: polynomials only where no infinity can tell the difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial, reduce

from partir.verify.elements.bounds import FiniteBounds
from partir.verify.elements.cases import Algebra
from partir.verify.elements.field import MINUS, MODULUS
from partir.verify.elements.numbers import Numbers
from partir.verify.elements.rings import (
    Complex,
    Floats,
    Integers,
    Plain,
    Ring,
    part_of,
)
from partir.verify.elements.scales import Scales


class FactorProducts:
    """What formulas of one proof are, multiplied or negated."""

    def __init__(
        self, algebra: Algebra, numbers: Numbers, bounds: FiniteBounds
    ) -> None:
        """Of its formulas."""
        self.algebra, self.numbers, self.bounds = algebra, numbers, bounds
        self.scales = Scales(algebra, numbers)
        self._scaled: dict[tuple[str, Plain], tuple[list[Plain], Plain]] = {}
        self._split_up: dict[tuple[int, Plain], tuple[int, Plain]] = {}
        self._members: dict[tuple[str, Plain], list[Plain]] = {}

    def times(self, dtype: str, ring: Ring) -> Callable[[Plain, Plain], Plain]:
        """Products of which one factor is finite for certain; others are a name."""
        if isinstance(ring, Integers):
            return ring.mul

        def run(x: Plain, y: Plain) -> Plain:
            bounds = [self._bound(x), self._bound(y)]
            if bounds == [None, None]:
                return self._factors(dtype, ring, (x, y))
            if None in bounds:
                by, other = (x, y) if bounds[1] is None else (y, x)
                return self._by(dtype, ring, by, other)
            if isinstance(ring, Floats):
                known = self.numbers.product(x, y, dtype)
                if known is not None:
                    return known
            made = self._finite(dtype, ring, x, y)
            if isinstance(ring, Floats):
                self.bounds.note(made, dtype, math.prod(bounds))  # type: ignore[arg-type]
            return made

        return run

    def _finite(self, dtype: str, ring: Ring, x: Plain, y: Plain) -> Plain:
        """Of two finite numbers; zero has a sign, which only sums do not look at."""
        mul, unsigned = self.mul(dtype, ring), self.algebra.unsigned
        if not isinstance(ring, Floats):
            return mul(x, y)
        if 0 in (self.numbers.number(x), self.numbers.number(y)):
            made = ring.unknown(self.algebra.point, "zero", *sorted((x, y)))
            unsigned[made] = 0
            return made
        made = mul(x, y)
        if x in unsigned or y in unsigned:
            unsigned[made] = mul(unsigned.get(x, x), unsigned.get(y, y))
        return made

    def _by(self, dtype: str, ring: Ring, by: Plain, x: Plain) -> Plain:
        """A number that may be infinite, by one that is not: linear in the former."""
        if isinstance(ring, Floats):
            by, x = self._with_zeros(dtype, by, x)
            known = self.numbers.number(by)
            factor = by if known else self._factor(by)
            made: Plain = self.mul(dtype, ring)(factor, x)
        else:
            part = part_of(dtype)
            one, other = self.scales.parts(part, by, x)
            (a, b), (c, d) = map(self._factor, one), other
            made = (a * c + MINUS * b * d) % MODULUS, (a * d + b * c) % MODULUS
            self.scales.note_parts(part, made, by, x)
            self._infinite_of(made, (by, x))
        self._scale(dtype, by, x, made)
        return made

    def _with_zeros(self, dtype: str, by: int, x: int) -> tuple[int, int]:
        """Known factors of something else: one zero, if there is any among them."""
        before, inner = self._scaled.get((dtype, x), ((), x))
        numbers = [self.numbers.number(one) for one in (by, *before)]
        if 0 not in numbers or None in numbers:
            return by, x
        signs = [math.copysign(1.0, one) for one in numbers if one is not None]
        return self.numbers.zero(math.prod(signs), dtype), inner

    def _factor(self, x: int) -> int:
        """A number that is finite, as a factor of what may not be: zero is not nothing.

        And no sum is one of its parts, which may be zero where it is not.
        """
        number = self.numbers.number(x)
        if number is None or not number:
            made = self.algebra.point.unknown("factor", x if number is None else 0)
            return made * MINUS % MODULUS if isinstance(number, float) else made
        return x if number > 0 else -x * MINUS % MODULUS

    def negative(self, x: int, dtype: str = "") -> int:
        """The negative of a float: added to it, it is zero only if known."""
        number = self.numbers.number(x)
        if self.numbers.is_none(x):
            return self.numbers.another("negative", x)
        if dtype and x == 0:
            return self.numbers.zero(-1.0, dtype)
        if isinstance(number, float):  # infinite, or zero with a sign
            return self.numbers.formula(-number)
        if x in self.algebra.far:
            return self._far("negative", dtype, x)
        return x * MINUS % MODULUS if number is None else self.numbers.formula(-number)

    def _scale(self, dtype: str, number: Plain, other: Plain, made: Plain) -> None:
        """Remember that something is known numbers times something else."""
        known = number if isinstance(number, tuple) else (number,)
        if all(self.numbers.number(part) is not None for part in known):
            before, inner = self._scaled.get((dtype, other), ([], other))
            self._scaled[dtype, made] = ([*before, number], inner)

    def _bound(self, x: Plain) -> float | None:
        if isinstance(x, int):
            return self.bounds.of(x)
        known = self.bounds.all_of(x)
        numbers = None not in map(self.numbers.number, x)
        return sum(known) if known is not None and numbers else None

    def _factors(self, dtype: str, ring: Ring, factors: Sequence[Plain]) -> Plain:
        """A product by its factors, in no order; of complex numbers, by these two."""
        if not isinstance(ring, Floats):
            key = ("times", dtype, tuple(sorted(factors)))
            return self._infinite_of(ring.unknown(self.algebra.point, *key), factors)
        found: list[Plain] = []
        numbers: list[Plain] = []
        for one in factors:
            own, inner = self._scaled.get((dtype, one), ((), one))
            numbers += own
            found += self._members.get((dtype, inner), [inner])
        made = ring.unknown(self.algebra.point, "times", dtype, tuple(sorted(found)))
        self._members[dtype, made] = found
        self.algebra.as_far(made, found)
        for number in numbers:
            made = self._by(dtype, ring, number, made)
        return made

    def of_integers(self, ring: Integers, x: Plain, y: Plain) -> Plain:
        """A product whose known factor wraps round by itself, in whatever order."""
        (by, one), (more, other) = self._split(ring, x), self._split(ring, y)
        inner, known = ring.mul(one, other), ring.number(by * more)
        made = ring.mul(known, inner)
        if inner[0] and known[1]:
            self._split_up[ring.bits, made] = (known[1], inner)
        return made

    def _split(self, ring: Integers, x: Plain) -> tuple[int, Plain]:
        """A known factor, and what is multiplied by it."""
        return self._split_up.get((ring.bits, x), (1, x)) if x[0] else (x[1], ring.one)

    def folded(self, dtype: str, factors: Sequence[Plain]) -> Plain:
        """A reduction of complex numbers by what it multiplies, in no order.

        What is finite for certain is one factor. All others are kept apart from
        products that are no reductions: an infinity's parts depend on the order.
        """
        ring, near, far = Complex(), list[Plain](), list[Plain]()
        for factor in factors:
            for one in self._members.get((dtype, factor), (factor,)):
                (far if self._bound(one) is None else near).append(one)
        if near:
            near = [reduce(self.times(dtype, ring), near)]
        if not far:
            return near[0]
        key = ("folded", dtype, tuple(near), tuple(sorted(far)))
        made = ring.unknown(self.algebra.point, *key)
        self._members[dtype, made] = [*near, *far]
        return self._infinite_of(made, far)

    def mul(self, dtype: str, ring: Ring) -> Callable[[Plain, Plain], Plain]:
        """Products of finite numbers; those with infinities are no polynomials."""
        if isinstance(ring, Complex):
            return partial(self._parts, part_of(dtype))
        if not isinstance(ring, Floats):
            return ring.mul
        zero = self.numbers.special["-0.0"]

        def run(x: int, y: int) -> int:
            if 1 in (x, y):
                return y if x == 1 else x
            if x in self.algebra.far or y in self.algebra.far:
                return self._far("product with an infinity", *sorted((x, y)))
            if zero in (x, y) or 0 in (x, y):
                return 0
            return self.scales.product(dtype, x, y)

        return run

    def _parts(self, dtype: str, x: Plain, y: Plain) -> Plain:
        """The same of complex numbers; in their parts, no two products cancel."""
        if self.algebra.far.isdisjoint((*x, *y)):
            one, other = self.scales.parts(dtype, x, y)
            (a, b), (c, d) = (map(self._without_sign, n) for n in (one, other))
            known = None not in map(self.numbers.number, (b, d))
            by = -1 if known else MINUS
            made = (a * c + by * b * d) % MODULUS, (a * d + b * c) % MODULUS
            self.scales.note_parts(dtype, made, x, y)
            return made
        made = Complex().unknown(
            self.algebra.point, "product with an infinity", *sorted((x, y))
        )
        return self._infinite_of(made, (x, y))

    def _without_sign(self, x: int) -> int:
        """A zero as sums look at it."""
        return 0 if x == self.numbers.special["-0.0"] else x

    def _infinite_of(self, made: Plain, factors: Sequence[Plain]) -> Plain:
        """A complex product, both parts of which are infinite if any of a factor is."""
        if not self.algebra.far.isdisjoint(p for one in factors for p in one):
            self.algebra.far.update(made)
        return made

    def _far(self, *key: Hashable) -> int:
        """What is known by its key alone, and is made of an infinity."""
        made = self.algebra.point.unknown(*key)
        self.algebra.far.add(made)
        return made
