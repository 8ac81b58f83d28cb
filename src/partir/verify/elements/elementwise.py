"""Ops that compute each element from those at the same place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from partir.ir.core import Signature
from partir.verify.classes.monoids import OF_TRUTHS, monoid_of_kind
from partir.verify.elements import integers
from partir.verify.elements.cases import (
    FALSE,
    GARBAGE,
    TRUE,
    Algebra,
    Cases,
    Scalar,
    negated,
)
from partir.verify.elements.converting import Converting
from partir.verify.elements.field import MODULUS
from partir.verify.elements.known_functions import KnownFunctions
from partir.verify.elements.monoids import WITHOUT_SIGN, Monoids
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
from partir.verify.elements.widening import WidenedIntegers, is_integer
from partir.verify.equations.elementwise import ELEMENTWISE
from partir.verify.layouts.layout import Unreadable

_WAY = re.compile(r"comparison_direction (\w+)")
_NORMAL = 2.0**-14  # in every type
_OF_INFINITIES = frozenset(  # what they make of one is one as well, or nan
    "abs cbrt ceil cosine floor log log_plus_one reduce_precision remainder "
    "round_nearest_afz round_nearest_even sine sqrt tan".split()
)
Run = Callable[..., Scalar]
OnRows = Callable[[Signature, Sequence[list[Scalar]]], list[list[Scalar]]]


class Elementwise:
    """What each op makes of one element of each operand."""

    def __init__(self, algebra: Algebra) -> None:
        """Of one proof."""
        self.algebra, self.numbers = algebra, Numbers(algebra)
        self.monoids = Monoids(algebra, self.numbers)
        known = (self.numbers, self.monoids.bounds, self.monoids.summed)
        self.converting = Converting(algebra, *known)
        self.functions = KnownFunctions(algebra, *known[:2])
        self.monoids.narrow = self.converting.narrower
        self.monoids.widen = lambda old, new, x: self.converting.run(old, new)(x)
        self.monoids.widened = WidenedIntegers(
            lambda name, dtype, x: self.monoids.total(name, dtype, ring_of(dtype), x),
            lambda before, after, x: self.convert(before, after)(x),
        )
        self.others: dict[str, OnRows] = {}  # by what they remember of others
        self._known: dict[Any, Run] = {}
        self._said: list[tuple[str, tuple[Any, ...], tuple[Any, ...]]] = []
        self.precise: frozenset[tuple[str, ...]] = frozenset()  # as the source asks
        self.hits: dict[Any, Scalar] = {}  # whether windows start at a place
        self.in_vain: dict[Any, list[int]] = {}  # rows in any order, by their reducer
        self.only_if: tuple[Any, ...] = ()  # what decides whether that is run

    @property
    def of_source(self) -> bool:
        """Whether what is said of values is believed, and kept in mind."""
        return self.monoids.summed.of_source

    def from_now_on_of_devices(self) -> None:
        """What comes is held against the source, which has been read."""
        self.monoids.summed.of_source = False

    def believe(self, name: str, rows: Sequence[Any]) -> None:
        """Hear what is said of rows; devices may say it of some that the source has."""
        if len(rows) < 2:
            return
        if self.of_source:
            self._said.append((name, self.only_if, tuple(rows)))
        elif not any(
            n == name and self.only_if[: len(when)] == when and _is_among(rows, said)
            for n, when, said in self._said
        ):
            raise Unreadable("a promise that the source does not make")

    def as_precise(self, said: tuple[str, ...]) -> int | None:
        """A factor for products that are so precise: it tells them from other sums.

        Devices' are as precise as those of the source that they are compared with. None
        if the source asks for none: a collective may carry products along that a result
        is not made of.
        """
        if self.of_source:
            self.precise |= {said}
        elif said not in self.precise:
            return None
        return self.algebra.point.unknown("precision", said)

    def tagged(self, by: int, dtype: str) -> Callable[[Plain], Plain]:
        """Sums of a type by a factor that tells them from others."""
        note = self.monoids.summed.note_tagged

        def part(x: int, inner: str) -> int:
            made = x * by % MODULUS
            note(inner, made, by, x)
            return made

        def run(x: Plain) -> Plain:
            found: Plain
            if isinstance(x, tuple):
                found = tuple(part(one, part_of(dtype)) for one in x)
            else:
                found = part(x, dtype)
            return self.algebra.as_far(found, (x,))

        return run

    def run(self, signature: Signature) -> Run | None:
        """An op's function on scalars; None if it is none of one place."""
        if signature.kind not in ELEMENTWISE:
            return None
        dtypes = tuple(t.dtype for t in signature.operands)
        key = (signature.kind, dtypes, signature.results[0].dtype, _attrs(signature))
        return self._remembering(key, lambda: self._made(signature, dtypes))

    def _remembering(self, key: Any, make: Callable[[], Run]) -> Run:
        """What is made once for a key, and remembers what it has made of scalars."""
        if key not in self._known:
            self._known[key] = self._with_memory(make())
        return self._known[key]

    def _with_memory(self, run: Run) -> Run:
        known: dict[Any, Scalar] = {}

        def remembered(*args: Scalar) -> Scalar:
            found = known.get(args)
            if found is None:
                found = known[args] = run(*args)
            return found

        return remembered

    def _made(self, signature: Signature, dtypes: tuple[str, ...]) -> Run:
        name, out = signature.name, signature.results[0].dtype
        ring, rings = ring_of(out), [ring_of(dtype) for dtype in dtypes]
        if name == "convert":
            return self.convert(dtypes[0], out)
        if name == "select":
            return self.select(out)
        monoid = "xor" if name == "xor" else monoid_of_kind(signature.kind)
        if isinstance(ring, Truths):
            monoid = OF_TRUTHS.get(monoid or "", monoid)
        if monoid in ("max", "min") and isinstance(ring, Integers):
            return self._extreme(monoid, out, ring)
        if monoid == "product" and isinstance(ring, Complex):
            mul = self.monoids.products.times(out, ring)
            return lambda *args: self.algebra.linear(mul, ring, *args)
        if monoid is not None:
            return lambda *args: self.monoids.total(monoid, out, ring, args)
        if name == "clamp":
            return self._clamp(out, ring)
        if name in ("subtract", "negate"):
            return self._linear(name, out, ring)
        plain = self._plain(signature, name, ring, rings)

        def strict(*args: Plain) -> Scalar:
            return GARBAGE if GARBAGE in args else plain(*args)

        return lambda *args: self.algebra.apply(strict, ring, rings, *args)

    def convert(self, before: str, after: str) -> Run:
        """From one type to another."""
        if before == after:
            return lambda x: x
        rings = (ring_of(after), (ring_of(before),))
        run = self.converting.run(before, after)
        if is_integer(before) and is_integer(after):
            return self._convert_integers(before, after, run)
        return lambda x: self.algebra.apply(run, *rings, x)

    def _convert_integers(self, before: str, after: str, run: Run) -> Run:
        """Of those that are widened, it is remembered what they were."""
        new, old, widened = ring_of(after), ring_of(before), self.monoids.widened
        assert widened is not None
        widens = new.bits > old.bits  # type: ignore[union-attr]  # both are integers

        def converted(x: Scalar) -> Scalar:
            found = None if widens else widened.narrowed(before, x, after)
            if found is not None:
                return found
            made = self.algebra.apply(run, new, (old,), x)
            if widens:
                widened.note(before, x, after, made)
            return made

        return converted

    def times(self, dtype: str) -> Run:
        """Products inside of sums, which are those of polynomials."""
        ring, linear = ring_of(dtype), self.algebra.linear
        mul = self.monoids.products.mul(dtype, ring)
        return self._remembering(
            ("times", dtype), lambda: lambda x, y: linear(mul, ring, x, y)
        )

    def select(self, dtype: str) -> Run:
        """One of two, by a truth; what is not chosen may be anything."""
        return self._remembering(("select", dtype), lambda: self._select(dtype))

    def _select(self, dtype: str) -> Run:
        ring, truths = ring_of(dtype), ring_of("i1")

        def run(which: Plain, x: Scalar, y: Scalar) -> Scalar:
            if which is GARBAGE:
                return x if x == y else GARBAGE
            if which in (x, y) and ring is truths and GARBAGE not in (x, y):
                return integers.both(x, y) if which == y else integers.either(x, y)
            return self.algebra.chosen(ring, which, x, y)

        return partial(self.algebra.choice, run, ring)

    def _linear(self, name: str, dtype: str, ring: Ring) -> Run:
        """Differences; of what is no number, nothing else is known."""
        linear = self.algebra.linear
        if dtype in WITHOUT_SIGN:
            return self._without_sign(name, dtype, ring)

        def negative(x: Plain) -> Plain:
            if isinstance(ring, Floats):
                return self.monoids.products.negative(x, dtype)
            if isinstance(ring, Complex):
                part = part_of(dtype)
                return tuple(self.monoids.products.negative(one, part) for one in x)
            return ring.neg(x)

        if name == "negate":
            return lambda x: linear(negative, ring, x)
        add = self.monoids.total

        def subtracted(x: Plain) -> Plain:  # what is no number may keep its sign
            if isinstance(ring, Floats) and self.numbers.is_none(x):
                return self.numbers.another("subtracted", x)
            return negative(x)

        return lambda x, y: add("sum", dtype, ring, (x, linear(subtracted, ring, y)))

    def _without_sign(self, name: str, dtype: str, ring: Ring) -> Run:
        """Differences in a type that has no negatives: they are no numbers."""

        def plain(*args: Plain) -> Plain:
            if GARBAGE in args:
                return GARBAGE
            return self.algebra.note_far(
                ring.unknown(self.algebra.point, name, dtype, args)
            )

        count = 1 if name == "negate" else 2
        return lambda *args: self.algebra.apply(plain, ring, [ring] * count, *args)

    def _extreme(self, monoid: str, dtype: str, ring: Integers) -> Run:
        """Of a known integer and another: one or the other, case by case."""
        way = "GE" if monoid == "max" else "LE"
        select = self.select(dtype)

        def plain(x: Plain, y: Plain) -> Scalar:
            if GARBAGE in (x, y):
                return GARBAGE
            if x[0] and y[0] and x[0] != y[0]:
                return self.monoids.total(monoid, dtype, ring, (x, y))
            return select(integers.compared(self.algebra, ring, way, x, y), x, y)

        return lambda x, y: self.algebra.apply(plain, ring, (ring, ring), x, y)

    def _clamp(self, dtype: str, ring: Ring) -> Run:
        if isinstance(ring, Integers):
            largest = self._extreme("max", dtype, ring)
            least = self._extreme("min", dtype, ring)
            return lambda low, x, high: least(largest(low, x), high)
        total = self.monoids.total
        return lambda low, x, high: total(
            "min", dtype, ring, (total("max", dtype, ring, (low, x)), high)
        )

    # On plain formulas

    def _plain(
        self, signature: Signature, name: str, ring: Ring, rings: Sequence[Ring]
    ) -> Run:
        dtype = signature.operands[0].dtype
        if name == "compare":
            return self._compare(signature, dtype, rings[0])
        if name in ("real", "imag", "complex"):
            return self._parts(name, rings[0])
        if name == "divide" and isinstance(ring, Floats):
            return self._quotient(dtype)
        if isinstance(ring, Truths) and name == "not":
            return negated
        point, key = self.algebra.point, (signature.kind, dtype, _attrs(signature))
        whole = isinstance(rings[0], Integers) and isinstance(ring, Integers)
        note = self._far_as_known(signature)
        numbers = not isinstance(ring, Integers) and not isinstance(rings[0], Integers)

        def run(*args: Plain) -> Scalar:
            if whole and len({id(r) for r in rings}) == 1:
                known = integers.computed(rings[0], name, args)  # type: ignore[arg-type]
                if known is not None:
                    return known
            if isinstance(ring, Truths):
                return self.algebra.truth(*key, args)
            made = ring.unknown(point, *key, args)
            return note(made, args) if numbers else made

        return run

    def _far_as_known(self, signature: Signature) -> Callable[[Plain, Any], Plain]:
        """What is said of a function of numbers: whether it is infinite for certain."""
        kind, keeps = signature.kind, signature.name in _OF_INFINITIES
        before, after = signature.operands[0].dtype, signature.results[0].dtype

        def note(made: Plain, args: Sequence[Plain]) -> Plain:
            if keeps and self.algebra.is_far(args[0]):
                self.algebra.note_far(made)
            return self.functions.note(kind, made, after, args, before)

        return note

    def _compare(self, signature: Signature, dtype: str, ring: Ring) -> Run:
        found = _WAY.search(signature.attrs["comparison_direction"])
        assert found is not None
        way, algebra = found[1], self.algebra
        if isinstance(ring, Integers):
            return lambda x, y: integers.compared(algebra, ring, way, x, y)
        total = "TOTALORDER" in signature.attrs.get("compare_type", "")
        return lambda x, y: self._compared(way, (dtype, total), x, y)

    def _compared(self, way: str, key: tuple[str, bool], x: Plain, y: Plain) -> Scalar:
        """Whether a float is less than another, or equal to it."""
        if way in integers.TURNED:
            way, x, y = integers.TURNED[way], y, x
        if not key[1] and isinstance(x, int):
            known = [self.numbers.read(one, key[0]) for one in (x, y)]
            if None not in known:
                return TRUE if integers.HOLDS[way](*known) else FALSE
        if way in ("EQ", "NE") and y < x:
            x, y = y, x
        made = self.algebra.truth("compare", *key, way.replace("NE", "EQ"), x, y)
        if way != "NE":
            return made
        return Cases(made.unknown, made.starts, made.values[::-1])

    def is_nan(self, dtype: str, x: Scalar) -> Scalar:
        """Whether a float is not equal to itself."""
        ring, truths = ring_of(dtype), ring_of("i1")

        def run(one: Plain) -> Scalar:
            if one is GARBAGE:
                return GARBAGE
            return self._compared("NE", (dtype, False), one, one)

        return self.algebra.apply(run, truths, (ring,), x)

    def _parts(self, name: str, ring: Ring) -> Run:
        """Of complex numbers; a real one has itself and nothing."""
        if name == "complex":
            return lambda x, y: (x, y)
        if not isinstance(ring, Complex):
            return (lambda x: x) if name == "real" else (lambda x: 0)
        return (lambda x: x[0]) if name == "real" else (lambda x: x[1])

    def _quotient(self, dtype: str) -> Run:
        """By a number that is normal, and so is its inverse, a product."""
        ring, numbers = ring_of(dtype), self.numbers
        mul = self.monoids.products.mul(dtype, ring)

        def run(x: int, y: int) -> Plain:
            number, top = numbers.read(y, dtype), numbers.read(x, dtype)
            if number is None or not _NORMAL <= abs(float(number)) <= 1 / _NORMAL:
                made = self.algebra.point.unknown("divided", dtype, x, y)
                self.functions.note("stablehlo.divide", made, dtype, (x, y), dtype)
                return self.algebra.as_far(made, (x,))
            if isinstance(top, Fraction) and top:
                return numbers.formula(numbers.rounded(top / Fraction(number), dtype))
            if top == 0:
                return numbers.zero(float(top) / float(number), dtype)
            made = mul(x, numbers.formula(1 / abs(Fraction(number))))
            return made if number > 0 else self.monoids.products.negative(made, dtype)

        return run


def _attrs(signature: Signature, *read: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in signature.attrs.items() if k not in read))


def _is_among(rows: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether all rows are among others, in their order."""
    left = iter(others)
    return all(row in left for row in rows)
