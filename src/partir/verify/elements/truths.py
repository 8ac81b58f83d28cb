"""Whether all of some truths hold, or one of them does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from partir.verify.elements import integers
from partir.verify.elements.cases import (
    FALSE,
    GARBAGE,
    TRUE,
    Algebra,
    Cases,
    Scalar,
    Unknown,
    negated,
    starts_of,
    unknowns,
)
from partir.verify.elements.rings import Plain, Truths

_FEW = 8  # unknowns that decide over a truth
_SMALL = 1 << 12  # cases of several truths, times those of what may tell them apart
_RING = Truths()


class TruthMonoids:
    """What reduces truths: `and` and `or`."""

    def __init__(self, algebra: Algebra) -> None:
        """Of one proof."""
        self.algebra = algebra
        self._sets: dict[tuple[str, Scalar], dict[Scalar, None]] = {}

    def total(self, monoid: str, members: Sequence[Scalar]) -> Scalar:
        """Whether all hold, or one does; one that does not, or does, settles it."""
        settles = FALSE if monoid == "and" else TRUE
        if any(m == settles for m in members):
            return settles
        held: dict[Scalar, None] = {}
        for member in members:
            held |= self._sets.get((monoid, member), {member: None})
        held.pop(negated(settles), None)
        if len(held) < 2:
            return next(iter(held), negated(settles))
        made = self._combined(monoid, [*held])
        if made is not GARBAGE:  # which is that of others as well
            self._sets[monoid, made] = held
        return made

    def _combined(self, monoid: str, members: Sequence[Scalar]) -> Scalar:
        """Case by case if there are few of them, and else by a name."""
        settles = FALSE if monoid == "and" else TRUE
        tables = [m for m in members if type(m) is Cases]
        seen = frozenset[Unknown]().union(*map(unknowns, tables))
        first = {m.unknown for m in tables}
        if len(seen) > _FEW and len(first) == 1:
            return self._in_common(monoid, members, *first)
        if len(seen) > _FEW:
            apart = self._apart(monoid, members)
            if apart is not None:
                return apart
            flat = [self.algebra.flat(member, _RING) for member in members]
            if not any(one is GARBAGE for one in flat):
                return self.algebra.truth(monoid, tuple(sorted(flat)))
        run = integers.both if monoid == "and" else integers.either

        def strict(x: Plain, y: Plain) -> Scalar:
            if settles in (x, y):
                return settles
            return GARBAGE if GARBAGE in (x, y) else run(x, y)

        return reduce(
            partial(self.algebra.apply, strict, _RING, (_RING, _RING)), members
        )

    def _in_common(
        self, monoid: str, members: Sequence[Scalar], unknown: Unknown
    ) -> Scalar:
        """Case by case of what decides first over all that depend on anything.

        Of look-ups in tiles, all but one say nothing then.
        """
        tables = [m for m in members if type(m) is Cases]
        starts = sorted({start for table in tables for start in table.starts})
        self.algebra.work(len(starts))
        values = [
            self.total(monoid, [m.at(s) if type(m) is Cases else m for m in members])
            for s in starts
        ]
        return self.algebra.cases(unknown, starts, values, _RING)

    def _apart(self, monoid: str, members: Sequence[Scalar]) -> Scalar | None:
        """Case by case of what decides over all of them, if it tells them apart.

        Of tiles of which each device has one, all but a few say nothing in each case.
        """
        algebra, nothing = self.algebra, TRUE if monoid == "and" else FALSE
        tables = [m for m in members if type(m) is Cases]
        common = frozenset[Unknown].intersection(*map(unknowns, tables))
        size = sum(table.size for table in tables)
        for unknown in sorted(common, key=algebra.order):
            starts = sorted({n for table in tables for n in starts_of(table, unknown)})
            if len(starts) * size > _SMALL:
                continue
            algebra.work(len(starts) * size)  # each piece is made anew
            pieces = [
                [algebra.where(unknown, start, m, _RING) for m in members]
                for start in starts
            ]
            if all(nothing in piece for piece in pieces):
                values = [self.total(monoid, piece) for piece in pieces]
                return algebra.cases(unknown, starts, values, _RING)
        return None
