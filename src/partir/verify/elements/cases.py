"""Formulas that depend on an integer or a truth that is not known, case by case.

An index that is an argument is in one tile or in another, and what is looked up by it
depends on where. So a formula may be a table: from this integer on, that formula. The
integer counts from zero to the end of its type, as its bits do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from typing import Any, TypeVar

from partir.verify.elements.field import MODULUS, Point
from partir.verify.elements.rings import Integers, Plain, Ring, Truths
from partir.verify.layouts.layout import Unreadable

_MOST = 2000  # cases of one formula
_TURNED = 256  # cases of one that is turned inside out
WORK = 3 << 17  # cases that are looked at in one attempt
_SHORT = 32  # so many integers or less are looked at one by one
Unknown = tuple[int, int]  # an integer: what it is at the random point, and its bits
Scalar = Any  # a plain formula, `Cases`, or `GARBAGE`
Table = Sequence[tuple[int, Scalar]]  # from each integer on, a formula
Reader = Callable[[Table, Integers], Scalar | None]  # a table as one formula


_T = TypeVar("_T")


class TooManyCases(Unreadable):
    """What would take too long to write out."""


class _Garbage:
    """What lies behind the end of a short tile, or is made of that: any number."""

    def __repr__(self) -> str:
        return "garbage"


GARBAGE = _Garbage()
FALSE, TRUE = (0, 0), (0, 1)
_KNOWN = (FALSE, TRUE)


class Cases:
    """One formula from each start on; those before the next are of the same case."""

    __slots__ = ("_flat", "_hash", "_on", "size", "starts", "unknown", "values")

    def __init__(
        self, unknown: Unknown, starts: tuple[int, ...], values: tuple[Scalar, ...]
    ) -> None:
        """Of more than one case, neighbours different."""
        self.unknown, self.starts, self.values = unknown, starts, values
        self.size: int = sum([v.size if type(v) is Cases else 1 for v in values])
        self._hash = hash((unknown, starts, values))
        self._flat: Plain = None
        self._on: frozenset[Unknown] | None = None

    def __eq__(self, other: object) -> bool:
        """Whether they are the same table."""
        return self is other or (
            type(other) is Cases
            and self._hash == other._hash
            and self.unknown == other.unknown
            and self.starts == other.starts
            and self.values == other.values
        )

    def __hash__(self) -> int:
        """Computed once."""
        return self._hash

    def at(self, number: int) -> Scalar:
        """The formula for an integer."""
        return self.values[bisect_right(self.starts, number) - 1]


class Algebra:
    """Formulas of one proof, all at the same point.

    What decides in a table may be looked at before what decides over the table. Then
    the inner one becomes a polynomial, or small ones are turned inside out.
    """

    def __init__(
        self, point: Point | None = None, turns: bool = False, work: int = WORK
    ) -> None:
        """At a random point; with so much work left."""
        self.point, self._turns = point or Point(), turns
        self.left = work
        self.far: set[Plain] = set()  # floats that may be infinite, or nan, for certain
        self.unsigned: dict[Plain, Plain] = {}  # floats, with zeros that have no sign
        self.hidden: dict[Scalar, Set[Unknown]] = {}  # what decided over polynomials
        self.readers: dict[Unknown, Reader] = {}  # of what is looked up by an integer
        self._narrow: dict[int, Unknown] = {}  # integers as wider types have them
        self._seen: dict[int, int] = {}  # what decides, as it came

    # Making cases

    def truth(self, *key: Hashable) -> Cases:
        """A truth that is known by its key alone."""
        return Cases((self.point.unknown(*key), 1), (0, 1), (FALSE, TRUE))

    def wider(self, unknown: Unknown) -> int:
        """An unknown integer, as its bits count from zero, in types with more bits."""
        made = self.point.unknown("bits of", unknown)
        self._narrow[made] = unknown
        return made

    def unknown_of(self, base: int, ring: Integers) -> Unknown:
        """What decides over a formula with this polynomial."""
        found = self._narrow.get(base)
        return (base, ring.bits) if found is None or found[1] > ring.bits else found

    def narrowed(self, base: int, bits: int) -> int:
        """The polynomial of an integer in a type with so many bits."""
        unknown = self._narrow.get(base)
        return base if unknown is None or unknown[1] < bits else unknown[0]

    def cases(
        self,
        unknown: Unknown,
        starts: Sequence[int],
        values: Sequence[Scalar],
        ring: Ring,
    ) -> Scalar:
        """A table of values of a ring, without what says the same twice."""
        if self._turns:
            turned = self._turned(unknown, starts, values, ring)
            if turned is not None:
                return turned
        found: list[tuple[int, Scalar]] = []
        ends = (*starts[1:], 1 << unknown[1])
        for start, end, value in zip(starts, ends, values, strict=True):
            for first, one in self._within(unknown, start, end, value, ring):
                if not found or found[-1][1] != one:
                    found.append((first, one))
        if len(found) == 1:
            return found[0][1]
        one = self._one_formula(unknown, found, ring)
        if one is not None:
            return one
        where, what = zip(*found, strict=True)
        made = Cases(unknown, where, what)
        if made.size > _MOST and len(what) < made.size:
            return Cases(unknown, where, tuple(self.flat(one, ring) for one in what))
        return made

    def _turned(
        self,
        unknown: Unknown,
        starts: Sequence[int],
        values: Sequence[Scalar],
        ring: Ring,
    ) -> Scalar | None:
        """The table by what decides in its values, if that comes first."""
        inner = [v for v in values if type(v) is Cases]
        first = min((v.unknown for v in inner), key=self.order, default=unknown)
        if self.order(first) >= self.order(unknown):
            return None
        split = [type(v) is Cases and v.unknown == first for v in values]
        pieces = sorted(
            {n for v, s in zip(values, split, strict=True) if s for n in v.starts}
        )
        if len(pieces) * sum(v.size for v in inner) > _TURNED:
            return None
        self.work(len(pieces))
        made = []
        for piece in pieces:
            here = [v.at(piece) if s else v for v, s in zip(values, split, strict=True)]
            made.append(self.cases(unknown, starts, here, ring))
        return self.cases(first, pieces, made, ring)

    def work(self, count: int) -> None:
        """Count cases that are looked at; stop before there are too many."""
        self.left -= count
        if self.left < 0:
            raise TooManyCases("too many cases to look at each")

    def _one_formula(self, unknown: Unknown, found: Table, ring: Ring) -> Scalar | None:
        """The integer itself, or so much more, if a table says nothing else."""
        if not isinstance(ring, Integers) or isinstance(ring, Truths):
            return None
        if unknown in self.readers:
            return self.readers[unknown](found, ring)
        depends = [v for _, v in found if self._substituted(v, ring, unknown, 0) != v]
        if depends:
            one = depends[-1]
        elif unknown[1] == ring.bits and type(found[0][1]) is tuple:
            one = (unknown[0], found[0][1][1])  # as much more as it is at zero
        else:
            return None
        ends = (*[start for start, _ in found[1:]], 1 << unknown[1])
        for (start, value), end in zip(found, ends, strict=True):
            single = end - start == 1
            if value != one and not (
                single and value == self._substituted(one, ring, unknown, start)
            ):
                return None
        return one

    def _within(
        self, unknown: Unknown, start: int, end: int, value: Scalar, ring: Ring
    ) -> Iterator[tuple[int, Scalar]]:
        """What a value is between two integers, which it may depend on itself."""
        if type(value) is Cases:
            if value.unknown == unknown:
                for first, one in zip(value.starts, value.values, strict=True):
                    if first <= start:
                        held = one
                    elif first < end:
                        yield from self._within(unknown, start, first, held, ring)
                        start, held = first, one
                yield from self._within(unknown, start, end, held, ring)
                return
            if self.order(value.unknown) < self.order(unknown):
                value = self.flat(value, ring)
        depends = self._substituted(value, ring, unknown, start) != value
        if depends and end - start <= _SHORT:
            for number in range(start, end):
                yield number, self._substituted(value, ring, unknown, number)
        else:
            yield start, value

    def order(self, unknown: Unknown) -> tuple[int, int]:
        """Which of several decides first: one that came first, before its last bits."""
        return self._seen.setdefault(unknown[0], len(self._seen)), -unknown[1]

    def _first(self, tables: Sequence[Cases]) -> Unknown:
        """What decides first over some tables."""
        return min((table.unknown for table in tables), key=self.order)

    # Using them

    def tried(self, run: Callable[[], _T]) -> _T | None:
        """What comes out, or None if that takes too large a part of all work."""
        kept, self.left = self.left, min(self.left, WORK >> 5)
        given = self.left
        try:
            return run()
        except TooManyCases:
            return None
        finally:
            self.left = kept - given + max(self.left, 0)

    def apply(
        self,
        run: Callable[..., Scalar],
        out: Ring,
        rings: Sequence[Ring],
        *args: Scalar,
    ) -> Scalar:
        """What `run` makes of plain formulas, in every case; `rings` are the args'."""
        tables = [a for a in args if type(a) is Cases]
        if not tables:
            return run(*args)
        if _product_of_sizes(tables) > _MOST:
            flat = [self.flat(a, r) for a, r in zip(args, rings, strict=True)]
            return run(*flat)
        self.work(len(tables[0].starts))
        unknown = self._first(tables)
        split = [type(a) is Cases and a.unknown == unknown for a in args]
        starts = sorted(
            {n for a, s in zip(args, split, strict=True) if s for n in a.starts}
        )
        ends = (*starts[1:], 1 << unknown[1])
        values = []
        for start, end in zip(starts, ends, strict=True):
            here = [
                a.at(start) if s else self._pinned(a, r, unknown, (start, end))
                for a, s, r in zip(args, split, rings, strict=True)
            ]
            values.append(self.apply(run, out, rings, *here))
        return self.cases(unknown, starts, values, out)

    def choice(
        self,
        run: Callable[..., Scalar],
        ring: Ring,
        which: Scalar,
        x: Scalar,
        y: Scalar,
    ) -> Scalar:
        """One of two, where a truth is known; elsewhere what `run` makes of all three.

        Only where the truth depends on more are the cases of both looked at.
        """
        if which in _KNOWN:
            return x if which == TRUE else y
        others = [one for one in (x, y) if type(one) is Cases]
        if type(which) is not Cases:
            return self.apply(run, ring, (Truths(), ring, ring), which, x, y)
        unknown = self._first([which, *others])
        own = which.unknown == unknown
        if not own and _product_of_sizes([which, *others]) > _MOST:
            return self.apply(run, ring, (Truths(), ring, ring), which, x, y)
        split = [one for one in others if one.unknown == unknown]
        more = {
            n
            for one in split
            for n in one.starts
            if not own or which.at(n) not in _KNOWN
        }
        starts = sorted({*which.starts, *more} if own else more)
        self.work(len(starts))
        values = []
        for start, end in zip(starts, (*starts[1:], 1 << unknown[1]), strict=True):
            held, both = which.at(start) if own else which, [x, y]
            if held not in _KNOWN:
                both = [
                    one.at(start)
                    if one in split
                    else self._pinned(one, ring, unknown, (start, end))
                    for one in both
                ]
            values.append(self.choice(run, ring, held, *both))
        return self.cases(unknown, starts, values, ring)

    def _pinned(
        self, scalar: Scalar, ring: Ring, unknown: Unknown, between: tuple[int, int]
    ) -> Scalar:
        """A formula where the unknown integer is a single one: then that is known."""
        start, end = between
        if end - start != 1:
            return scalar
        return self._substituted(scalar, ring, unknown, start)

    def _substituted(
        self, scalar: Scalar, ring: Ring, unknown: Unknown, number: int
    ) -> Scalar:
        """An integer that is so much more than the unknown one, which is known here."""
        if not isinstance(ring, Integers) or isinstance(ring, Truths):
            return scalar
        if type(scalar) is Cases or scalar is GARBAGE or not scalar[0]:
            return scalar
        if self.unknown_of(scalar[0], ring) != unknown:
            return scalar
        return ring.number(number + scalar[1])

    def where(
        self, unknown: Unknown, number: int, scalar: Scalar, ring: Ring
    ) -> Scalar:
        """What a formula is where an unknown integer is this one."""
        if type(scalar) is not Cases or unknown not in unknowns(scalar):
            return scalar
        if scalar.unknown == unknown:
            return scalar.at(number)
        values = [self.where(unknown, number, v, ring) for v in scalar.values]
        return self.cases(scalar.unknown, scalar.starts, values, ring)

    def linear(self, run: Callable[..., Plain], ring: Ring, *args: Scalar) -> Scalar:
        """The same for sums and products: different unknowns' need no tables.

        Unless one depends on all that others do: then there are no more cases.
        """
        seen = {unknowns(a) for a in args if type(a) is Cases}
        every = frozenset[Unknown]().union(*seen)
        if not seen or every not in seen:
            flat = [self.flat(a, ring) for a in args]
            if GARBAGE in flat:
                return GARBAGE
            made = run(*flat)
            self.hide(
                made, {*every, *(u for a in args for u in self.hidden.get(a, ()))}
            )
            return made

        def strict(*given: Plain) -> Scalar:
            return GARBAGE if GARBAGE in given else run(*given)

        return self.apply(strict, ring, [ring] * len(args), *args)

    def hide(self, made: Scalar, decided: Set[Unknown]) -> None:
        """Remember what decided over tables that have become part of a formula."""
        known = type(made) is tuple and not made[0]
        if decided and made not in (GARBAGE, 0) and not known:
            self.hidden[made] = decided

    def flat(self, scalar: Scalar, ring: Ring) -> Plain:
        """A table as a polynomial of truths: whether the integer is this or more."""
        if type(scalar) is not Cases:
            return scalar
        if scalar._flat is None:
            scalar._flat = self._flattened(scalar, ring)
        return scalar._flat

    def _flattened(self, table: Cases, ring: Ring) -> Plain:
        values = [self.flat(v, ring) for v in table.values]
        if any(v is GARBAGE for v in values):
            return GARBAGE
        made = self.as_far(self._steps(table, values, ring), values)
        if not self.unsigned.keys().isdisjoint(values):
            plain = [self.unsigned.get(v, v) for v in values]
            self.unsigned[made] = self._steps(table, plain, ring)
            if made in self.far:
                self.far.add(self.unsigned[made])
        return made

    def as_far(self, made: Plain, of: Sequence[Plain]) -> Plain:
        """What may be infinite if one of those is that it is made of."""
        if type(made) is tuple:  # part by part
            for number, part in enumerate(made):
                self.as_far(part, [one[number] for one in of])
        elif not self.far.isdisjoint(of):
            self.far.add(made)
        return made

    def made_of(self, row: Sequence[Plain], ring: Ring, *key: Hashable) -> Plain:
        """What is made of a whole row, as far off as any of it."""
        made = ring.unknown(self.point, *key)
        if not isinstance(ring, Integers) and any(map(self.is_far, row)):
            self.note_far(made)
        return made

    def is_far(self, made: Plain) -> bool:
        """Whether a float, or a part of a complex number, may be infinite."""
        parts = made if type(made) is tuple else (made,)
        return not self.far.isdisjoint(parts)

    def note_far(self, made: Plain) -> Plain:
        """What may be infinite for certain, in all of its parts."""
        self.far.update(made if type(made) is tuple else (made,))
        return made

    def _steps(self, table: Cases, values: Sequence[Plain], ring: Ring) -> Plain:
        made = values[0]
        for start, before, after in zip(
            table.starts[1:], values, values[1:], strict=False
        ):
            step = ring.add(after, ring.neg(before))
            truth = self.point.unknown("from", table.unknown, start)
            made = ring.add(made, ring.scaled(step, truth))
        return made

    def chosen(self, ring: Ring, which: Plain, x: Plain, y: Plain) -> Plain:
        """One of two plain formulas, by a plain truth."""
        if not which[0]:
            return x if which[1] else y
        if GARBAGE in (x, y):
            return GARBAGE
        if x == y:
            return x
        step = ring.add(x, ring.neg(y))
        if which[1]:  # true where all unknowns are zero
            which, x, y, step = negated(which), y, x, ring.neg(step)
        return self.as_far(ring.add(y, ring.scaled(step, which[0])), (x, y))


def negated(truth: Plain) -> Plain:
    """The other truth."""
    return -truth[0] % MODULUS, 1 - truth[1]


def unknowns(table: Cases) -> frozenset[Unknown]:
    """All integers that a table depends on; found once, since tables share parts."""
    if table._on is None:
        inner = [unknowns(value) for value in table.values if type(value) is Cases]
        table._on = frozenset([table.unknown]).union(*inner)
    return table._on


def starts_of(scalar: Scalar, unknown: Unknown) -> set[int]:
    """Where a table changes with an integer, at whatever depth."""
    if type(scalar) is not Cases or unknown not in unknowns(scalar):
        return set()
    own = {*scalar.starts} if scalar.unknown == unknown else set()
    return own.union(*(starts_of(value, unknown) for value in scalar.values))


def leaves_of(scalar: Scalar) -> Iterator[Plain]:
    """All plain formulas that a formula may be; what is garbage is none."""
    if type(scalar) is Cases:
        for value in scalar.values:
            yield from leaves_of(value)
    elif scalar is not GARBAGE:
        yield scalar


def _product_of_sizes(tables: Sequence[Cases]) -> int:
    """At most so many cases there are together; equal unknowns have them in common."""
    sizes: dict[Unknown, int] = {}
    for table in tables:
        sizes[table.unknown] = sizes.get(table.unknown, 0) + table.size
    made = 1
    for size in sizes.values():
        made *= size
    return made
