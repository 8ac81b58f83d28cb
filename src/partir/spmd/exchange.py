"""Exchange: what neighbours hold of the windows that devices read.

Along the axes of one dimension, each device holds a tile and wants a window. From both
lists of intervals follow messages. Messages that differ only in where they go share a
`collective_permute`, as long as no device sends or gets two: a round.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from partir.rules.reach import Extent, layout, tile_lengths


class Piece(NamedTuple):
    """Rows that a device gets: whose, from where in its tile, to where, how many."""

    source: int
    target: int
    start: int
    place: int
    rows: int

    @property
    def shift(self) -> int:
        """How far rows move from tile to window."""
        return self.place - self.start


@dataclass(frozen=True, slots=True)
class Round:
    """Pieces that travel, or stay, at once; no device sends or gets two."""

    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """Length of the longest."""
        return max(piece.rows for piece in self.pieces)

    @property
    def stretch(self) -> tuple[int, int] | None:
        """Where in the window all pieces go; None if devices differ."""
        if len({piece.shift for piece in self.pieces}) != 1:
            return None
        first = min(piece.place for piece in self.pieces)
        return first, max(piece.place + piece.rows for piece in self.pieces)


@dataclass(frozen=True)
class Window:
    """What each device wants of a dimension of size `whole`, its axes of sizes `parts`.

    What lies outside of the dimension is not specified.
    """

    whole: int
    parts: tuple[int, ...]
    extent: Extent

    @cached_property
    def plan(self) -> tuple[Round, tuple[Round, ...]]:
        """What stays on its device, and the rounds that travel."""
        return _plan(self)

    @cached_property
    def stretches(self) -> tuple[tuple[int, int], ...] | None:
        """Where what stays and what each round brings go; None if devices differ."""
        own, rounds = self.plan
        found = [r.stretch for r in (own, *rounds) if r.pieces]
        known = sorted(stretch for stretch in found if stretch is not None)
        apart = all(a[1] <= b[0] for a, b in itertools.pairwise(known))
        return tuple(known) if apart and len(known) == len(found) else None

    @cached_property
    def order(self) -> tuple[int, ...] | None:
        """An order of what stays (0) and the rounds in which all places ascend.

        Written so, what a message has too much behind its rows is written over by the
        next. None if devices differ.
        """
        own, rounds = self.plan
        present = [(n, r) for n, r in enumerate((own, *rounds)) if r.pieces]
        number = {p: n for n, r in present for p in r.pieces}
        by_target: dict[int, list[Piece]] = {}
        for piece in number:
            by_target.setdefault(piece.target, []).append(piece)
        after: dict[int, set[int]] = {n: set() for n, _ in present}
        for pieces in by_target.values():
            pieces.sort(key=lambda piece: piece.place)
            for first, second in itertools.pairwise(pieces):
                after[number[second]].add(number[first])
        try:
            return tuple(TopologicalSorter(after).static_order())
        except CycleError:
            return None

    @property
    def rows_sent(self) -> int:
        """Rows that a device sends: the longest message of each round."""
        if self.stretches is None:
            return sum(round_.rows for round_ in self.plan[1])
        ranges = [r.stretch for r in self.plan[1]]
        return sum(found[1] - found[0] for found in ranges if found)

    @property
    def rows_gathered(self) -> int:
        """Rows that a device would send if all were gathered."""
        tile = layout(self.whole, self.extent.axes, self.parts).length
        return tile * (math.prod(self.parts) - 1)

    @property
    def is_worth_its_messages(self) -> bool:
        """Whether fewer rows travel than in a gather, or no more in one message.

        Not if a window goes round until it reads its own tile once more: who wants
        that wants all other tiles, too.
        """
        own, rounds = self.plan
        if len({piece.target for piece in own.pieces}) < len(own.pieces):
            return False
        sent, gathered = self.rows_sent, self.rows_gathered
        return sent < gathered or (sent == gathered and len(rounds) == 1)


@lru_cache(maxsize=1 << 12)
def _plan(window: Window) -> tuple[Round, tuple[Round, ...]]:
    pieces = list(_pieces(window))
    own = tuple(piece for piece in pieces if piece.source == piece.target)
    alike: dict[tuple[int, ...], list[Piece]] = {}
    count = math.prod(window.parts)
    for piece in pieces:
        if piece.source != piece.target:
            hop = (piece.target - piece.source) % count
            alike.setdefault((hop, piece.shift), []).append(piece)
    groups = sorted(alike.values(), key=lambda g: (-max(p.rows for p in g), g[0]))
    return Round(own), tuple(Round(tuple(group)) for group in _merged(groups))


def _pieces(window: Window) -> Iterator[Piece]:
    """For every device, what its window overlaps of every tile."""
    starts = layout(window.whole, window.extent.axes, window.parts).starts(window.parts)
    lengths = tile_lengths(window.whole, window.parts)
    # Tiles that are all padding may start anywhere: they hold nothing.
    holders = sorted((starts[n], n) for n, length in enumerate(lengths) if length)
    tiles = [start for start, _ in holders]
    for target, wanted in enumerate(window.extent.starts(window.parts)):
        for low, high, place in _inside(window, wanted):
            number = max(0, bisect_right(tiles, low) - 1)
            while number < len(tiles) and tiles[number] < high:
                start, source = holders[number]
                first = max(low, start)
                rows = min(high, start + lengths[source]) - first
                if rows > 0:
                    at = place + first - low
                    yield Piece(source, target, first - start, at, rows)
                number += 1


def _inside(window: Window, start: int) -> Iterator[tuple[int, int, int]]:
    """Parts of a window that lie in the dimension, and where they go in the window."""
    whole, end = window.whole, start + window.extent.length
    if not window.extent.wrap:
        low, high = max(start, 0), min(end, whole)
        if low < high:
            yield low, high, low - start
        return
    position = start
    while position < end:
        low = position % whole
        rows = min(end - position, whole - low)
        yield low, low + rows, position - start
        position += rows


def _merged(groups: list[list[Piece]]) -> Iterator[list[Piece]]:
    """Groups joined while sources and targets stay disjoint, longest first."""
    rounds: list[tuple[set[int], set[int], list[Piece]]] = []
    for group in groups:
        sources, targets = {p.source for p in group}, {p.target for p in group}
        for busy, filled, pieces in rounds:
            if busy.isdisjoint(sources) and filled.isdisjoint(targets):
                busy |= sources
                filled |= targets
                pieces += group
                break
        else:
            rounds.append((sources, targets, list(group)))
    for _, _, pieces in rounds:
        yield sorted(pieces)
