"""Tiles of tensors, as layouts of a tensor's own dimensions, and what they show."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from partir.verify.classes.rows import GARBAGE, Rows
from partir.verify.layouts.layout import (
    REPEATED,
    Digit,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    digits,
    repeated,
    split_off,
)

AxesOfDims = tuple[tuple[int, ...], ...]
Tiling = Sequence[Sequence[int]]  # per dimension, the mesh axes that tile it


def tiled(shape: Sequence[int], tiling: Tiling, sizes: Sequence[int]) -> DigitLayout:
    """The layout of a tensor whose dimensions are cut by these axes, major first."""
    axes: list[Digits] = [repeated(size) for size in sizes]
    local = []
    for dim, size in enumerate(shape):
        over = tiling[dim] if dim < len(tiling) else ()
        stride = size
        for axis in over:
            if stride % sizes[axis]:
                raise Unreadable(f"a dimension of size {size} in unequal tiles")
            stride //= sizes[axis]
            axes[axis] = digits((Digit(dim, stride, sizes[axis]),))
        local.append(digits((Digit(dim, 1, stride),)))
    return DigitLayout(tuple(local), tuple(axes))


def is_even(shape: Sequence[int], tiling: Tiling, sizes: Sequence[int]) -> bool:
    """Whether all tiles are equally large."""
    return all(
        shape[dim] % math.prod(sizes[axis] for axis in axes) == 0
        for dim, axes in enumerate(tiling)
    )


def tile_shape(
    shape: Sequence[int], tiling: Tiling, sizes: Sequence[int]
) -> tuple[int, ...]:
    """The shape of a tile, as large as the largest."""
    made = list(shape)
    for dim, axes in enumerate(tiling):
        for axis in axes:
            made[dim] = -(-made[dim] // sizes[axis])
    return tuple(made)


def rows_of_tiles(
    size: int, over: Sequence[int], sizes: Sequence[int], dim: int, rank: int
) -> Rows:
    """Rows of a dimension cut by axes, level by level; `GARBAGE` behind its end."""
    shape = (*sizes, *(1 for _ in range(rank)))
    start = np.zeros((1,) * len(shape), np.int64)
    length = np.full((1,) * len(shape), size, np.int64)
    tile = size
    for axis in over:
        tile = -(-tile // sizes[axis])
        place = np.arange(sizes[axis])
        wide = [1] * len(shape)
        wide[axis] = sizes[axis]
        before = place.reshape(wide) * tile
        start = start + before
        length = np.clip(length - before, 0, tile)
    wide = [1] * len(shape)
    wide[len(sizes) + dim] = tile
    row = np.arange(tile).reshape(wide)
    return np.where(row < length, start + row, GARBAGE)


def shown(tile: DigitLayout, whole: View) -> View:
    """A tile of a tensor that is known as a whole: the class that the tile shows."""
    source = whole.layout.local
    local = tuple(_looked_up(items, source) for items in tile.local)
    axes = tuple(_looked_up(items, source) for items in tile.axes)
    return View(whole.node, DigitLayout(local, axes, whole.layout.tables))


def shown_in_tiles(
    whole: View, shape: tuple[int, ...], tiling: AxesOfDims, sizes: tuple[int, ...]
) -> View:
    """The same for the tiles that axes cut."""
    return View(whole.node, _in_tiles(whole.layout, shape, tiling, sizes))


@lru_cache(maxsize=1024)
def _in_tiles(
    layout: DigitLayout,
    shape: tuple[int, ...],
    tiling: AxesOfDims,
    sizes: tuple[int, ...],
) -> DigitLayout:
    return shown(tiled(shape, tiling, sizes), View(0, layout)).layout


def _looked_up(items: Digits, source: tuple[Digits, ...]) -> Digits:
    found: list[Digit] = []
    for digit in items:
        if digit.dim == REPEATED:
            found.append(digit)
            continue
        _, rest = split_off(source[digit.dim], digit.stride)
        found += split_off(rest, digit.size)[0]
    return digits(found)


def possible(
    shape: Sequence[int], local: Sequence[int], sizes: Sequence[int]
) -> Iterator[AxesOfDims]:
    """Ways of tiling a tensor that give this local shape: even ones, then others."""
    dims = [*zip(shape, local, strict=True)]
    yield from _tilings(dims, frozenset(), sizes, True)
    short = _tilings(dims, frozenset(), sizes, False)
    yield from (tiling for tiling in short if not is_even(shape, tiling, sizes))


def _tilings(
    dims: Sequence[tuple[int, int]],
    used: frozenset[int],
    sizes: Sequence[int],
    even: bool,
) -> Iterator[AxesOfDims]:
    if not dims:
        yield ()
        return
    (whole, part), *others = dims
    free = [a for a, size in enumerate(sizes) if a not in used and size > 1]
    for count in range(len(free) + 1 if whole > 1 else 1):
        for axes in itertools.permutations(free, count):
            if even and part * math.prod(sizes[a] for a in axes) != whole:
                continue
            if tile_shape((whole,), (axes,), sizes) != (part,):
                continue
            for rest in _tilings(others, used | frozenset(axes), sizes, even):
                yield (axes, *rest)
