"""Sums of floats that are widened afterwards: those of their members, widened.

Devices that widen what they have of a sum, and add up then, round less often than the
source, which adds up in the narrow type. So a sum that the source widens is known by
its members, each widened as one of that sum. Devices may add up some of these before
they widen them, and the others behind; what the source does not add up in the narrow
type, they may not. Each member is the number that it was: an infinity among them makes
the same of the sum, in whatever order. Sums that are known to have one are left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

from partir.verify.classes.types import has_all_of
from partir.verify.elements.cases import Algebra
from partir.verify.elements.field import MODULUS
from partir.verify.elements.numbers import Numbers
from partir.verify.elements.rings import Floats

_MOST = 256  # members of a sum that is looked into
_ADD = Floats().add


class WidenedSums:
    """What is known of sums of one proof, and of those that the source widens."""

    def __init__(self, algebra: Algebra, numbers: Numbers) -> None:
        """Of its formulas."""
        self.algebra, self.numbers = algebra, numbers
        self.of_source = True
        self._added: dict[tuple[str, int], tuple[int, ...]] = {}
        self._tagged: dict[tuple[str, int], tuple[int, int]] = {}
        self._sums: dict[tuple[str, str, int], list[int]] = {}  # by each member
        self._known: dict[tuple[str, str, int], int | None] = {}  # as the source has it

    def note(self, dtype: str, made: int, members: Sequence[int]) -> None:
        """Remember what was added up: no zeros with a sign, and nothing infinite."""
        more = tuple(member for member in members if member)
        if len(more) > 1:
            self._added.setdefault((dtype, made), more)

    def note_tagged(self, dtype: str, made: int, by: int, total: int) -> None:
        """Remember a sum that is told from others by a factor: so are its members."""
        if (dtype, total) in self._added:
            self._tagged[dtype, made] = (by, total)

    def widened(self, before: str, after: str, x: int) -> int | None:
        """A sum of the source in another type, or a part of one; None of all others.

        What the source widens is on devices what it is in the source.
        """
        if not has_all_of(after, before) or x in self.algebra.far:
            return None
        key = (before, after, x)
        if self.of_source and key not in self._known:
            self._known[key] = self._whole(*key)
        return self._known[key] if key in self._known else self._part(*key)

    def _whole(self, before: str, after: str, x: int) -> int | None:
        """A sum of several members, which devices may have some of."""
        members = self._members(before, x)
        if members.total() < 2:
            return None
        for member in members:
            self._sums.setdefault((before, after, member), []).append(x)
        return self._total(before, after, x, members)

    def _part(self, before: str, after: str, x: int) -> int | None:
        """Some members of a sum that the source widens."""
        members = self._members(before, x)
        first = next(iter(members), None)
        if first is None:
            return None
        for whole in self._sums.get((before, after, first), ()):
            if members <= self._members(before, whole):
                return self._total(before, after, whole, members)
        return None

    def _total(self, before: str, after: str, whole: int, members: Counter[int]) -> int:
        widened = [
            self._member(before, after, whole, one) * count
            for one, count in members.items()
        ]
        return reduce(_ADD, widened, 0)

    def _member(self, before: str, after: str, whole: int, one: int) -> int:
        known = self.numbers.read(one, before)
        if isinstance(known, Fraction):
            return self.numbers.formula(known)
        return self.algebra.point.unknown("widened", before, after, whole, one)

    def _members(self, dtype: str, x: int) -> Counter[int]:
        """What a sum is made of in the end; nothing if that is too much."""
        found: Counter[int] = Counter()
        left = [x]
        while left:
            one = left.pop()
            inner = self._parts_of(dtype, one)
            if one in inner:
                found[one] += 1
            else:
                left += inner
            if len(left) + found.total() > _MOST:
                return Counter()
        return found

    def _parts_of(self, dtype: str, x: int) -> Sequence[int]:
        """What was added up last; itself, if nothing was."""
        by, total = self._tagged.get((dtype, x), (1, x))
        return [one * by % MODULUS for one in self._added.get((dtype, total), (total,))]
