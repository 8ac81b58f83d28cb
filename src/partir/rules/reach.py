"""What an iteration reads along a dimension: its tile, or a window beside it.

A dimension of size d over axes of sizes n1, n2, … is cut level by level: tiles of
``ceil(d / n1)``, each cut into ``ceil(… / n2)``. Only the last tile of a level is
short; rows behind its end are garbage. Where every size divides, all tiles are full.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reach:
    """Index i of a factor reads ``[i*stride + first, i*stride + first + length)``.

    Positions outside of the dimension read `fill`: a number, or the operand (by its
    place) that has it; None if what is read there never counts. With `wrap` they are
    counted from the other end.
    """

    stride: int = 1
    first: int = 0
    length: int = 1
    fill: int | str | None = None
    wrap: bool = False

    def rows(self, count: int) -> int:
        """How many positions `count` neighbouring indices read."""
        return (count - 1) * abs(self.stride) + self.length if count else 0

    def part(self, count: int) -> tuple[int, int]:
        """Where the first `count` indices start to read, and how far the next do."""
        back = min(0, (count - 1) * self.stride)
        return self.first + back, count * self.stride


@dataclass(frozen=True, slots=True)
class Extent:
    """Positions of a dimension that an iteration has: ``[start, start + length)``.

    `start` is `first` and, for each axis, its index times its step.
    """

    axes: tuple[str, ...]
    steps: tuple[int, ...]
    first: int
    length: int
    wrap: bool = False

    def starts(self, sizes: Sequence[int]) -> list[int]:
        """Every iteration's start, axes of these sizes, the last one fastest."""
        indices = itertools.product(*map(range, sizes))
        return [
            self.first + sum(i * s for i, s in zip(index, self.steps, strict=True))
            for index in indices
        ]


def tile_sizes(size: int, parts: Sequence[int]) -> list[int]:
    """Sizes of the tiles of a dimension, level by level.

    >>> tile_sizes(511, (2, 4))
    [256, 64]
    """
    return list(
        itertools.accumulate(parts, lambda left, n: -(-left // n), initial=size)
    )[1:]


def layout(size: int, axes: Sequence[str], parts: Sequence[int]) -> Extent:
    """The tiles of a dimension over axes of these sizes, major first."""
    sizes = tile_sizes(size, parts)
    return Extent(tuple(axes), tuple(sizes), 0, sizes[-1] if sizes else size)


def tile_lengths(size: int, parts: Sequence[int]) -> list[int]:
    """How much of each tile is there: full, short or nothing; the last axis fastest.

    >>> tile_lengths(7, (2, 2))
    [2, 2, 2, 1]
    """
    lengths = [size]
    for tile, count in zip(tile_sizes(size, parts), parts, strict=True):
        lengths = [
            max(0, min(tile, length - tile * index))
            for length in lengths
            for index in range(count)
        ]
    return lengths


def fills_all(size: int, parts: int) -> bool:
    """Whether no tile of a dimension that is cut into `parts` is all padding."""
    return -(-size // parts) * (parts - 1) < size
