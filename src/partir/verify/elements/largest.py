"""The largest of rows, and where they are: of tiles' largest, those of all tiles.

top_k puts all numbers of a type in one order, and of equal ones the first comes first.
So a row of which parts are the largest of other rows has their largest, if it has
enough of each; and what ends a row, and is behind everything, changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from partir.ir.core import Signature
from partir.verify.elements.cases import GARBAGE, Scalar, Table, Unknown
from partir.verify.elements.constants import least_number
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import Integers, Plain, ring_of
from partir.verify.layouts.layout import Unreadable

Elements = list[Scalar]
Row = tuple[Plain, ...]


class _Ranked(NamedTuple):
    """An element as one of the largest of a row."""

    row: Row
    rank: int


class _Merged(NamedTuple):
    """A row, and the one that its parts are the largest of."""

    row: Row
    places: list[Plain]  # in that row, of each element of the first


class LargestOfRows:
    """What is known of the largest of rows of one proof."""

    def __init__(self, ops: Elementwise) -> None:
        """Nothing yet."""
        self.ops = ops
        self._ranked: dict[tuple[str, Plain], _Ranked] = {}
        ops.others["chlo.top_k"] = self.top_k

    def top_k(self, signature: Signature, given: Sequence[Elements]) -> list[Elements]:
        """The largest of each row, and where they are."""
        (type_,), (made, where) = signature.operands, signature.results
        size, count = type_.shape[-1], made.shape[-1]
        ring, found = ring_of(type_.dtype), (Elements(), Elements())
        for first in range(0, len(given[0]) if size else 0, size or 1):
            held = given[0][first : first + size]
            row = tuple(self.ops.algebra.flat(one, ring) for one in held)
            both = self._of_row(row, type_.dtype, where.dtype, count)
            for all_, new in zip(found, both, strict=True):
                all_ += new
        return [*found]

    def _of_row(
        self, row: Row, dtype: str, places: str, count: int
    ) -> tuple[Elements, Elements]:
        if GARBAGE in row:
            return [GARBAGE] * count, [GARBAGE] * count
        ring = ring_of(places)
        if not isinstance(ring, Integers) or len(row) >= ring.count >> 1:
            raise Unreadable("places in rows that are too long for their type")
        least, length = least_number(self.ops, dtype), len(row)
        while length and row[length - 1] == least:
            length -= 1
        there = row[:length]
        merged = self._merged(there, dtype, count)
        values = [self._value(merged.row, dtype, n) for n in range(min(count, length))]
        behind = range(len(values), count)
        where = [self._where(there, merged, dtype, rank) for rank in range(len(values))]
        values += [row[n] for n in behind]
        return values, [*where, *(ring.number(n) for n in behind)]

    def _merged(self, row: Row, dtype: str, count: int) -> _Merged:
        """Tiles' largest as all that these tiles have, if so many are needed."""
        whole: list[Plain] = []
        places: list[Plain] = []
        at = 0
        while at < len(row):
            tile, taken = self._tile(row, at, dtype)
            start = len(whole)
            if taken >= min(count, len(tile)):
                inside = [self._place(tile, dtype, rank) for rank in range(taken)]
                places += [(base, offset + start) for base, offset in inside]
                whole += tile
                at += taken
            else:
                places.append((0, start))
                whole.append(row[at])
                at += 1
        return _Merged(tuple(whole), places)

    def _tile(self, row: Row, at: int, dtype: str) -> tuple[Row, int]:
        """Of which row the largest begin here, and how many there are of it."""
        found = self._ranked.get((dtype, row[at]))
        if found is None or found.rank:
            return row[at : at + 1], 1
        tile, taken = found.row, 1
        while taken < len(row) - at and self._ranked.get(
            (dtype, row[at + taken])
        ) == _Ranked(tile, taken):
            taken += 1
        return tile, taken

    def _value(self, row: Row, dtype: str, rank: int) -> Plain:
        if len(row) == 1:
            return row[0]
        algebra, ring = self.ops.algebra, ring_of(dtype)
        made = ring.unknown(algebra.point, "largest", dtype, row, rank)
        self._ranked[dtype, made] = _Ranked(row, rank)
        return algebra.as_far(made, row)

    def _unknown(self, row: Row, dtype: str, rank: int) -> Unknown:
        """What decides where one of the largest is: an integer of few bits."""
        point, bits = self.ops.algebra.point, (len(row) - 1).bit_length()
        return point.unknown("place of the largest", dtype, row, rank), bits

    def _place(self, row: Row, dtype: str, rank: int) -> Plain:
        """Where one of the largest is in a row, as integers of any type have it."""
        if len(row) == 1:
            return (0, 0)
        return (self.ops.algebra.wider(self._unknown(row, dtype, rank)), 0)

    def _where(self, row: Row, merged: _Merged, dtype: str, rank: int) -> Plain:
        """Where it is in a row; what is found there may be where it is in all tiles."""
        whole, length = merged.row, len(row)
        if row == whole:
            return self._place(row, dtype, rank)
        if merged.places == [self._place(whole, dtype, n) for n in range(length)]:
            return (0, rank)  # they are in order
        readers = self.ops.algebra.readers
        readers[self._unknown(row, dtype, rank)] = partial(
            self._read, merged.places, self._unknown(whole, dtype, rank)
        )
        return self._place(row, dtype, rank)

    def _read(
        self, places: list[Plain], whole: Unknown, found: Table, ring: Integers
    ) -> Plain | None:
        """The place in all tiles, or so much more, if a table has those of tiles."""
        algebra, starts = self.ops.algebra, [start for start, _ in found]
        if ring.bits <= whole[1]:
            return None
        shifts = set[int]()
        for number, (base, offset) in enumerate(places):
            held = found[bisect_right(starts, number) - 1][1]
            if type(held) is not tuple or held[0] != base:
                return None
            shifts.add(ring.wrapped(held[1] - offset))
        if len(shifts) != 1:
            return None
        return (algebra.wider(whole), *shifts)
