"""Sums, extremes and truths of any number of formulas, in no order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial, reduce
from typing import Any

from partir.verify.classes.monoids import OF_TRUTHS, WITHOUT_INFINITY
from partir.verify.elements.bounds import FiniteBounds
from partir.verify.elements.cases import (
    GARBAGE,
    Algebra,
    Cases,
    Scalar,
    Unknown,
    leaves_of,
    starts_of,
    unknowns,
)
from partir.verify.elements.factors import FactorProducts
from partir.verify.elements.field import MODULUS
from partir.verify.elements.numbers import Numbers
from partir.verify.elements.rings import (
    Complex,
    Floats,
    Integers,
    Plain,
    Ring,
    Truths,
    part_of,
)
from partir.verify.elements.summed import WidenedSums
from partir.verify.elements.truths import TruthMonoids
from partir.verify.elements.widening import WidenedIntegers

_QUICK = 8  # so many cases are no more work than one that is computed with
_FAR = {"max": "-inf", "min": "inf"}
WITHOUT_SIGN = {
    "f8E8M0FNU": Fraction(2) ** 127
}  # the largest; its inverse is the least


Narrow = Callable[[str, Sequence[int]], tuple[str, list[int]] | None]
Carried = Callable[[str, str, Sequence[Scalar]], Scalar | None]


class Monoids:
    """What reduces elements of a type."""

    def __init__(self, algebra: Algebra, numbers: Numbers) -> None:
        """Of one proof."""
        self.algebra, self.numbers = algebra, numbers
        self.bounds = FiniteBounds(numbers)
        self.products = FactorProducts(algebra, numbers, self.bounds)
        self.truths = TruthMonoids(algebra)
        far = [numbers.special[name] for name in ("inf", "-inf", "nan")]
        self._infinite = {one: (one, 0) for one in far}
        self._rows: dict[Any, tuple[tuple[Plain, ...], ...]] = {}
        self._reduced: dict[Any, tuple[Scalar, ...]] = {}  # what rows make
        self._tables: dict[Any, tuple[Scalar, ...]] = {}  # what sets are made of
        self._sets: dict[Any, dict[Scalar, None]] = {}  # of what is made of several
        self.narrow: Narrow | None = None
        self.widen: Callable[[str, str, Plain], Plain] = lambda before, after, x: x
        self.widened: WidenedIntegers | None = None
        self.summed = WidenedSums(algebra, numbers)
        self.carried: Carried | None = None  # how integers carry floats in their order

    def total(
        self, monoid: str, dtype: str, ring: Ring, members: Sequence[Scalar]
    ) -> Scalar:
        """All members, combined."""
        if isinstance(ring, Truths):
            monoid = OF_TRUTHS.get(monoid, monoid)
        if len(members) == 1:
            return members[0]
        if self.widened is None or not isinstance(ring, Integers):
            return self._total(monoid, dtype, ring, members)
        made = self.widened.extreme(monoid, dtype, members)
        if made is None:
            made = self._total(monoid, dtype, ring, members)
            self.widened.note_total(monoid, dtype, members, made)
        return made

    def _total(
        self, monoid: str, dtype: str, ring: Ring, members: Sequence[Scalar]
    ) -> Scalar:
        if monoid == "sum":
            return self._sum(dtype, ring, members)
        if monoid == "product" and isinstance(ring, Complex):
            flat = [self.algebra.flat(member, ring) for member in members]
            return GARBAGE if GARBAGE in flat else self.products.folded(dtype, flat)
        if monoid == "product" and isinstance(ring, Integers):
            run = partial(self.products.of_integers, ring)
            return reduce(partial(self.algebra.linear, run, ring), members)
        if isinstance(ring, Truths) and monoid != "xor":
            return self.truths.total(monoid, members)
        carried = self.carried(monoid, dtype, members) if self.carried else None
        if carried is None and monoid in _FAR and isinstance(ring, Floats):
            carried = self._narrowed(monoid, dtype, ring, members)
        if carried is not None:
            return carried
        settles = _settling(monoid, ring)
        if settles is not None and settles in members:
            return settles
        return self._together(monoid, dtype, ring, members)

    def _narrowed(
        self, monoid: str, dtype: str, ring: Floats, members: Sequence[Scalar]
    ) -> Scalar | None:
        """An extreme of floats as they were before they were widened, widened."""
        leaves = list(dict.fromkeys(leaf for m in members for leaf in leaves_of(m)))
        before = self.narrow(dtype, leaves) if self.narrow is not None else None
        if before is None:
            return None
        type_, origins = before
        origin = dict(zip(leaves, origins, strict=True)) | {GARBAGE: GARBAGE}
        held = [
            self.algebra.apply(origin.__getitem__, ring, (ring,), m) for m in members
        ]
        made = self.total(monoid, type_, ring, held)
        widen = partial(self.widen, type_, dtype)
        return self.algebra.apply(widen, ring, (ring,), made)

    def _sum(self, dtype: str, ring: Ring, members: Sequence[Scalar]) -> Scalar:
        if isinstance(ring, Floats):
            members = [m for m in members if m != self.numbers.special["-0.0"]]
            if not members:
                return self.numbers.special["-0.0"]
            if all(type(m) is int for m in members) and not any(
                m in self.algebra.hidden for m in members
            ):
                return self._plain_sum(dtype, members)
        sets = {unknowns(m) for m in members if type(m) is Cases}
        seen = frozenset[Unknown]().union(*sets)
        hidden = {u for m in members for u in self.algebra.hidden.get(m, ())}
        flattens = bool(sets) and (seen not in sets or not hidden <= seen)
        apart = self._apart(dtype, ring, members) if len(sets) > 1 else None
        if apart is not None:
            return apart
        if flattens:
            members = [
                self.algebra.flat(self._unsigned(m, ring), ring) for m in members
            ]
        run: Callable[..., Plain] = ring.add
        if isinstance(ring, Floats):
            run = lambda *both: self._plain_sum(dtype, both)  # noqa: E731
        elif isinstance(ring, Complex):
            run = partial(self._complex_sum, part_of(dtype))
        made = reduce(partial(self.algebra.linear, run, ring), members)
        if flattens or hidden:
            self.algebra.hide(made, {*seen, *hidden})
        return made

    def _apart(
        self, dtype: str, ring: Ring, members: Sequence[Scalar]
    ) -> Scalar | None:
        """Case by case of an integer, if all but one are zero in each case.

        So are look-ups in tiles, each on its device.
        """
        tables = [member for member in members if type(member) is Cases]
        common = frozenset[Unknown].intersection(*map(unknowns, tables))
        size = sum(table.size for table in tables) // _QUICK
        for unknown in sorted(common, key=self.algebra.order):
            starts = sorted({n for table in tables for n in starts_of(table, unknown)})
            if len(starts) * size > self.algebra.left >> 4:
                continue
            self.algebra.work(size)
            found = self._apart_by(unknown, starts, (dtype, ring), members)
            if found is not None:
                self.algebra.work(len(starts) * size)
                return found
        return None

    def _apart_by(
        self,
        unknown: Unknown,
        starts: Sequence[int],
        of: tuple[str, Ring],
        members: Sequence[Scalar],
    ) -> Scalar | None:
        algebra, (dtype, ring) = self.algebra, of
        pieces = []
        for start in starts:
            here = [algebra.where(unknown, start, m, ring) for m in members]
            if sum(not self._adds_nothing(one, ring) for one in here) > 1:
                return None
            pieces.append(self._sum(dtype, ring, here))
        return algebra.cases(unknown, starts, pieces, ring)

    def _adds_nothing(self, one: Scalar, ring: Ring) -> bool:
        """Whether something is a zero, whatever its sign."""
        zeros = (0, self.numbers.special["-0.0"])
        if isinstance(ring, Complex) and type(one) is tuple:
            return all(part in zeros for part in one)
        return one == ring.zero or (isinstance(ring, Floats) and one in zeros)

    def _complex_sum(self, dtype: str, x: Plain, y: Plain) -> Plain:
        return tuple(self._plain_sum(dtype, both) for both in zip(x, y, strict=True))

    def _unsigned(self, member: Scalar, ring: Ring) -> Scalar:
        """A table in which zeros have no sign: among others they add nothing."""
        if type(member) is not Cases or isinstance(ring, Integers):
            return member
        unsigned = self.algebra.unsigned

        def plain(x: Plain) -> Plain:
            if type(x) is tuple:
                return tuple(unsigned.get(part, part) for part in x)
            return unsigned.get(x, x)

        if all(plain(leaf) == leaf for leaf in leaves_of(member)):
            return member
        return self.algebra.apply(plain, ring, (ring,), member)

    def _plain_sum(self, dtype: str, members: Sequence[int]) -> int:
        """Infinities do not cancel: a sum with one of them is no polynomial."""
        found: set[int] = set()
        rest, zero = 0, self.numbers.special["-0.0"]
        members = [member for member in members if member != zero]
        if not members:
            return zero
        if len(members) > 1:
            members = [self.algebra.unsigned.get(one, one) for one in members]
        for member in self.products.scales.added(dtype, members):
            far, near = self._infinite.get(member, (None, member))
            rest += near
            if far is not None:
                found.add(far)
        if not found:
            made = self.numbers.known_sum(rest % MODULUS, members, dtype)
            bounds = self.bounds.all_of(members)
            if bounds is not None:
                self.bounds.note(made, dtype, sum(bounds))
            self.algebra.as_far(made, members)
            self.products.scales.note_sum(made, members)
            self.summed.note(dtype, made, members)
            return made
        nan = self.numbers.special["nan"]
        if len(found - {nan}) > 1:
            return self.numbers.another("sum", nan in found)
        far = nan if nan in found else next(iter(found))
        rest %= MODULUS
        if not rest or (far == nan and self.numbers.number(rest) is not None):
            return far
        made = self.algebra.point.unknown("beside an infinity", far, rest)
        self._infinite[made] = (far, rest)
        self.algebra.far.add(made)
        return made

    def _together(
        self, monoid: str, dtype: str, ring: Ring, members: Sequence[Scalar]
    ) -> Scalar:
        """Members that depend on the same unknown case by case; all others as a set."""
        groups: dict[Any, list[Scalar]] = {}
        for member in members:
            for one in self._tables.get((monoid, dtype, member), (member,)):
                key = tuple(sorted(unknowns(one))) if type(one) is Cases else None
                groups.setdefault(key, []).append(one)
        if groups.keys() == {None}:
            return self._plain(monoid, dtype, ring, groups[None])
        plain = self._settled(monoid, dtype, ring, groups.pop(None, []))
        tables = [
            self._by_cases(monoid, dtype, ring, group) for group in groups.values()
        ]
        if len(tables) == 1 and len(plain) <= 1:
            made = self._by_cases(monoid, dtype, ring, (*tables, *plain))
        else:
            both = [self.algebra.flat(one, ring) for one in (*tables, *plain)]
            made = self._plain(monoid, dtype, ring, both)
        if tables and made is not GARBAGE and made not in tables:
            self._tables[monoid, dtype, made] = (*tables, *plain)
        return made

    def _by_cases(
        self, monoid: str, dtype: str, ring: Ring, members: Sequence[Scalar]
    ) -> Scalar:
        def run(*plain: Plain) -> Scalar:
            return self._plain(monoid, dtype, ring, plain)

        if monoid not in ("xor", "product"):
            members = list(dict.fromkeys(members))
        return self.algebra.apply(run, ring, [ring] * len(members), *members)

    def _settled(
        self, monoid: str, dtype: str, ring: Ring, members: Sequence[Plain]
    ) -> tuple[Plain, ...]:
        """Plain members as one, if there are any that change something."""
        if not members:
            return ()
        made = self._plain(monoid, dtype, ring, members)
        nothing = made is not GARBAGE and self._changes_nothing(
            monoid, dtype, ring, made
        )
        return () if nothing else (made,)

    def _plain(
        self, monoid: str, dtype: str, ring: Ring, members: Sequence[Plain]
    ) -> Plain:
        """A set of members, those of others among them."""
        if any(m is GARBAGE for m in members):
            return GARBAGE
        if monoid == "product":
            return reduce(self.products.times(dtype, ring), members)
        found: dict[Plain, None] = {}
        for member in members:
            held = self._sets.get((monoid, dtype, member), {member: None})
            if monoid == "xor":  # twice is not at all
                held = {m: None for m in (*found, *held) if (m in found) != (m in held)}
                found.clear()
            found.update(held)
        settled = self._known(monoid, dtype, ring, list(found))
        if len(settled) == 1:
            return settled[0]
        if not settled:  # each twice
            assert monoid == "xor", monoid
            return ring.zero
        made = ring.unknown(self.algebra.point, monoid, dtype, tuple(sorted(settled)))
        self._sets[monoid, dtype, made] = dict.fromkeys(settled)
        if isinstance(ring, Floats):
            bounds = self.bounds.all_of(settled)
            if bounds is not None:
                self.bounds.note(made, dtype, max(bounds))
        return self.algebra.as_far(made, settled)

    def _known(
        self, monoid: str, dtype: str, ring: Ring, members: list[Plain]
    ) -> list[Plain]:
        """Members, the known integers as one; without what changes nothing."""
        if not isinstance(ring, Integers):
            kept = [
                m for m in members if not self._changes_nothing(monoid, dtype, ring, m)
            ]
            return kept or members[:1]
        known = [m[1] for m in members if not m[0]]
        others = [m for m in members if m[0]]
        if not known:
            return others
        one = ring.number(_RUN[monoid](list(map(ring.typed, known)), ring))
        if one == _settling(monoid, ring):
            return [one]
        if others and self._changes_nothing(monoid, dtype, ring, one):
            return others
        return [one, *others]

    def _changes_nothing(
        self, monoid: str, dtype: str, ring: Ring, member: Plain
    ) -> bool:
        """Whether a member is what a reduction starts from."""
        if isinstance(ring, Integers):
            return bool(member == ring.number(_identity(monoid, ring)))
        if monoid not in _FAR or not isinstance(member, int):
            return False
        end = _end(monoid, dtype)
        if end is None:
            return member == self.numbers.special[_FAR[monoid]]
        return self.numbers.number(member) == end

    def start(self, monoid: str, dtype: str, ring: Ring) -> Plain | None:
        """What changes nothing; None if the type has no such number."""
        if monoid in ("sum", "product"):
            return ring.zero if monoid == "sum" else ring.one
        if isinstance(ring, Integers):
            number = _identity(monoid, ring)
            return ring.number(number % 2 if isinstance(ring, Truths) else number)
        if monoid in _FAR and _end(monoid, dtype) is None:
            return self.numbers.special[_FAR[monoid]]
        return None

    def neutral(self, monoid: str, dtype: str, ring: Ring) -> Plain | None:
        """The same, or the end of a type without infinities."""
        end = _end(monoid, dtype)
        if end is None or monoid not in _FAR:
            return self.start(monoid, dtype, ring)
        return self.numbers.formula(end)

    def in_order(
        self,
        key: tuple[Any, Any],
        rows: Sequence[tuple[Scalar, ...]],
        rings: Sequence[Ring],
        known: tuple[Scalar, ...] | None = None,
        parts: bool = True,
    ) -> tuple[Scalar, ...]:
        """Rows reduced by what has no name: of tiles in turn, it is that of all.

        The key is what reduces them, and where it starts, if anywhere. If it is known
        what they make, that is kept in mind. None are `parts` of others if where they
        start from counts.
        """
        flat = [self.flat_row(row, rings) for row in rows]
        if any(GARBAGE in row for row in flat):
            return known or (GARBAGE,) * len(rings)
        found, wide = (self._of_rows(key, flat, own) for own in (False, True))
        for held in (found, wide):
            once = self._reduced.get((key, held))
            if once is not None:  # in whatever form it was found
                return once
        if known is not None:
            made = self.flat_row(known, rings)
        elif len(found) == 1 and key[1] is None:
            (made,) = found
        else:
            every = [one for row in found for one in row]
            made = tuple(
                self.algebra.made_of(every, ring, "reduced", key, number, found)
                for number, ring in enumerate(rings)
            )
        if found and parts:
            self._rows[key, made] = found
        self._reduced[key, found] = self._reduced[key, wide] = known or made
        return known or made

    def _of_rows(
        self, key: tuple[Any, Any], rows: Sequence[tuple[Plain, ...]], own: bool
    ) -> tuple[tuple[Plain, ...], ...]:
        """Rows that some are reductions of, of their `own` as well: of equal rows."""
        found: list[tuple[Plain, ...]] = []
        for row in rows:
            inner = self._rows.get((key, row)) or self._rows.get(((key[0], None), row))
            found += (row,) if inner is None or (row in inner and not own) else inner
        return tuple(found)

    def flat_row(
        self, row: Sequence[Scalar], rings: Sequence[Ring]
    ) -> tuple[Plain, ...]:
        """An element of each value, without tables."""
        both = zip(row, rings, strict=True)
        return tuple(self.algebra.flat(one, ring) for one, ring in both)


def _end(monoid: str, dtype: str) -> Fraction | None:
    """What changes no extreme, of a type that has no infinity; None if it has."""
    if dtype in WITHOUT_SIGN:
        return WITHOUT_SIGN[dtype] if monoid == "min" else 1 / WITHOUT_SIGN[dtype]
    end = WITHOUT_INFINITY.get(dtype)
    return None if end is None else Fraction(-end if monoid == "max" else end)


def _identity(monoid: str, ring: Integers) -> int:
    return {"max": ring.least, "min": ring.largest, "and": -1, "or": 0, "xor": 0}[
        monoid
    ]


def _settling(monoid: str, ring: Ring) -> Plain | None:
    """The integer that a reduction is if it is among its members, whatever others are.

    Floats have none: an infinity beside what is no number is not the largest.
    """
    if not isinstance(ring, Integers) or isinstance(ring, Truths):
        return None
    ends = {"max": ring.largest, "min": ring.least, "and": 0, "or": -1}
    return ring.number(ends[monoid]) if monoid in ends else None


_RUN: dict[str, Callable[[list[int], Integers], int]] = {
    "max": lambda known, ring: max(known),
    "min": lambda known, ring: min(known),
    "and": lambda known, ring: reduce(lambda x, y: x & y, known),
    "or": lambda known, ring: reduce(lambda x, y: x | y, known),
    "xor": lambda known, ring: reduce(lambda x, y: x ^ y, known),
}
