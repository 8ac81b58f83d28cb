"""Integers as those of a type with fewer bits, which they were made of.

Types of few bits travel in wider ones. An extreme of widened integers is that of the
narrow ones, widened; the last bits of a sum are the sum of last bits, and those of
products and of bits together likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partir.verify.elements.cases import GARBAGE, Cases, Scalar
from partir.verify.elements.rings import Integers, Truths, ring_of

_EXTREMES = ("max", "min")
Narrow = tuple[str, Scalar]  # a type with fewer bits, and an integer of it
Total = Callable[[str, str, Sequence[Scalar]], Scalar]
Convert = Callable[[str, str, Scalar], Scalar]


def is_integer(dtype: str) -> bool:
    """Whether a type has integers that wrap round."""
    ring = ring_of(dtype)
    return isinstance(ring, Integers) and not isinstance(ring, Truths)


class WidenedIntegers:
    """What is known of wide integers of one proof."""

    def __init__(self, total: Total, convert: Convert) -> None:
        """`total` and `convert` are those of the proof."""
        self._total, self._convert = total, convert
        self._same: dict[Narrow, Narrow] = {}  # the same number, in fewer bits
        self._last: dict[Narrow, Narrow] = {}  # the same number in its last bits

    def note(self, before: str, x: Scalar, after: str, made: Scalar) -> None:
        """Remember what an integer was before it was widened."""
        if x is GARBAGE or _is_known(made):
            return
        self._last[after, made] = (before, x)
        if before.startswith("u") or not after.startswith("u"):
            self._same[after, made] = (before, x)

    def narrowed(self, before: str, x: Scalar, after: str) -> Scalar | None:
        """Last bits of an integer, if more of them are known; else None."""
        found = self._last.get((before, x))
        if found is None or _bits(found[0]) < _bits(after):
            return None
        return self._convert(found[0], after, found[1])

    def extreme(
        self, monoid: str, dtype: str, members: Sequence[Scalar]
    ) -> Scalar | None:
        """An extreme of integers that were widened, or are known; else None."""
        if monoid not in _EXTREMES or not self._same:
            return None
        inside, ends = self._apart(dtype, members)
        found = _members(self._same, dtype, inside, _exactly)
        if found is None:
            return None
        before, narrow = found
        largest = monoid == "max"
        beyond = [n for n in ends if (n > 0) == largest]
        if beyond:  # further than all that the narrow type has
            return ring_of(dtype).number(max(beyond) if largest else min(beyond))  # type: ignore[union-attr]  # of integers
        return self._convert(before, dtype, self._total(monoid, before, narrow))

    def _apart(
        self, dtype: str, members: Sequence[Scalar]
    ) -> tuple[list[Scalar], list[int]]:
        """Members, and known numbers that what they were before does not have."""
        types = {self._same[dtype, m][0] for m in members if (dtype, m) in self._same}
        if len(types) != 1:
            return [*members], []
        (before,), ring = types, ring_of(dtype)
        assert isinstance(ring, Integers)
        ends = [m for m in members if _is_known(m)]
        ends = [m for m in ends if _exactly(before, ring.typed(m[1])) is None]
        return [m for m in members if m not in ends], [ring.typed(m[1]) for m in ends]

    def note_total(
        self, monoid: str, dtype: str, members: Sequence[Scalar], made: Scalar
    ) -> None:
        """Remember last bits of what is made of integers whose last bits are known."""
        if monoid in _EXTREMES or not self._last or made is GARBAGE:
            return
        found = _members(self._last, dtype, members, _wrapped)
        if found is not None and not _is_known(made):
            before, narrow = found
            self._last[dtype, made] = (before, self._total(monoid, before, narrow))


def _members(
    known: dict[Narrow, Narrow],
    dtype: str,
    members: Sequence[Scalar],
    number: Callable[[str, int], Scalar | None],
) -> tuple[str, list[Scalar]] | None:
    found = [known.get((dtype, member)) for member in members]
    types = {one[0] for one in found if one is not None}
    if len(types) != 1:
        return None
    (before,), ring = types, ring_of(dtype)
    assert isinstance(ring, Integers)
    made = []
    for member, narrow in zip(members, found, strict=True):
        if narrow is None and _is_known(member):
            narrow = (before, number(before, ring.typed(member[1])))
        if narrow is None or narrow[1] is None:
            return None
        made.append(narrow[1])
    return before, made


def _is_known(x: Scalar) -> bool:
    return type(x) is not Cases and x is not GARBAGE and not x[0]


def _exactly(dtype: str, number: int) -> Scalar | None:
    ring = ring_of(dtype)
    assert isinstance(ring, Integers)
    return ring.number(number) if ring.least <= number <= ring.largest else None


def _wrapped(dtype: str, number: int) -> Scalar:
    ring = ring_of(dtype)
    assert isinstance(ring, Integers)
    return ring.number(number)


def _bits(dtype: str) -> int:
    ring = ring_of(dtype)
    assert isinstance(ring, Integers)
    return ring.bits
