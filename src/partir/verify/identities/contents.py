"""Known numbers of the source, found again by what they are.

Both programs make masks, offsets and indices of `iota` and constants, and devices make
their tiles of them in other ways. Whatever way that is: if the numbers on all devices
are those of a tile of something in the source, they are that tile.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from partir.ir.types import TensorType
from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import GARBAGE, Rows
from partir.verify.layouts.concrete import TYPES, number_class, shown_numbers
from partir.verify.layouts.layout import (
    DigitLayout,
    Unreadable,
    View,
    repeated,
    repeating,
)
from partir.verify.layouts.spread import along, relaid
from partir.verify.layouts.tiles import is_even, rows_of_tiles, shown, tile_shape, tiled

LARGEST = 1 << 14  # elements of a tensor that is found by its numbers
_MOST = 24  # ways to tile a tensor that are tried


class KnownTensor(NamedTuple):
    """Numbers of the source, as a whole tensor."""

    values: np.ndarray
    view: View
    made_by: str


def recognised(
    classes: Classes, sizes: Sequence[int], name: str, type_: TensorType, view: View
) -> View:
    """What an op made; if it is numbers that the source has, the source's."""
    count = math.prod(type_.shape)
    if type_.dtype not in TYPES or not 0 < count <= LARGEST:
        return view
    if classes.source is not None and _is_plain(classes, view):
        return view
    kind, dims = classes.terms[view.node].kind, classes.terms[view.node].dims
    if math.prod(max(size, 1) for size in dims) > LARGEST:
        return view
    if not dims and kind in ("affine", "constant"):
        return view
    shown_ = shown_numbers(classes, view)
    if shown_ is None or not shown_.known.any():
        return view
    found, known = shown_
    first = found[known][0]
    if known.all() and (found == first).all():
        if classes.source is None:
            classes.replaced.add(view.node)
        node = number_class(classes, int(first), type_.dtype)
        return View(node, repeating(type_.shape, sizes))
    whole, there = (np.broadcast_to(x, (*sizes, *type_.shape)) for x in (found, known))
    if classes.source is None:  # devices of a shard_map have no whole tensors
        keeps = known.all() and not sizes
        return _kept(classes, name, type_, view, whole) if keeps else view
    return _tile_of_known(classes, sizes, name, type_, (whole, there)) or view


def _is_plain(classes: Classes, view: View) -> bool:
    """Whether the source has a class, in this form."""
    in_source = classes.in_source(view.node) and not view.layout.tables
    return in_source and view.node not in classes.replaced


def _kept(
    classes: Classes, name: str, type_: TensorType, view: View, whole: np.ndarray
) -> View:
    """The first value of the source with these numbers, and in this shape."""
    known: dict[object, KnownTensor]
    known = classes.contents.setdefault((type_.dtype, len(type_.shape)), {})
    key = (type_.shape, whole.tobytes())
    counts = classes.terms[view.node].kind == "affine"
    if key not in known or (counts and not _counts(classes, known[key])):
        known[key] = KnownTensor(whole, view, name)
    if not counts and known[key].view.node != view.node:
        classes.replaced.add(view.node)
        return known[key].view
    return view


def _counts(classes: Classes, known: KnownTensor) -> bool:
    return classes.terms[known.view.node].kind == "affine"


def _tile_of_known(
    classes: Classes,
    sizes: Sequence[int],
    name: str,
    type_: TensorType,
    found: tuple[np.ndarray, np.ndarray],
) -> View | None:
    """A value of the source whose tiles these numbers are, best one made alike."""
    known = classes.contents.get((type_.dtype, len(type_.shape)), {})
    possible = [
        tensor
        for tensor in known.values()
        if tensor.values.flat[0] == found[0].flat[0]  # the first is the first's first
    ]

    def unlike(one: KnownTensor) -> tuple[bool, bool]:
        return one.values.shape != type_.shape, one.made_by != name

    for tensor in sorted(possible, key=unlike):
        shape = tensor.values.shape
        ways = tilings(shape, type_.shape, sizes)
        for tiling in itertools.islice(ways, _MOST):
            if _is_tile(tensor.values, tiling, sizes, found):
                try:
                    return _shown(classes, tensor.view, shape, tiling, sizes)
                except Unreadable:
                    continue
    return None


def tilings(
    shape: Sequence[int], local: Sequence[int], sizes: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Ways of tiling a tensor, short last tiles or not, that give this local shape."""
    free = [axis for axis, size in enumerate(sizes) if size > 1]
    each = [
        [
            axes
            for count in range(len(free) + 1)
            for axes in itertools.permutations(free, count)
            if tile_shape((whole,), (axes,), sizes) == (part,)
        ]
        for whole, part in zip(shape, local, strict=True)
    ]
    for tiling in itertools.product(*each):
        used = [axis for axes in tiling for axis in axes]
        if len({*used}) == len(used):
            yield tiling


def _rows(
    shape: Sequence[int], tiling: Sequence[Sequence[int]], sizes: Sequence[int]
) -> list[Rows]:
    rank = len(shape)
    return [
        rows_of_tiles(size, axes, sizes, dim, rank)
        for dim, (size, axes) in enumerate(zip(shape, tiling, strict=True))
    ]


def _is_tile(
    whole: np.ndarray,
    tiling: Sequence[Sequence[int]],
    sizes: Sequence[int],
    found: tuple[np.ndarray, np.ndarray],
) -> bool:
    rows = np.broadcast_arrays(*_rows(whole.shape, tiling, sizes))
    inside = np.all([held != GARBAGE for held in rows], axis=0)
    wanted = whole[tuple(np.where(inside, held, 0) for held in rows)]
    return bool((((wanted == found[0]) & found[1]) | ~inside).all())


def _shown(
    classes: Classes,
    view: View,
    shape: Sequence[int],
    tiling: Sequence[Sequence[int]],
    sizes: Sequence[int],
) -> View:
    """The tile of a whole tensor."""
    if is_even(shape, tiling, sizes):
        return shown(tiled(shape, tiling, sizes), view)
    alone = tuple(repeated(size) for size in sizes)
    layout = DigitLayout(view.layout.local, alone, view.layout.tables)
    for dim, at in enumerate(_rows(shape, tiling, sizes)):
        of_class = along(layout, dim) if tiling[dim] else None
        if of_class is not None:
            own = classes.terms[view.node].dims[of_class]
            layout = relaid(layout, dim, at, at.shape[len(sizes) + dim], own)
        elif tiling[dim]:
            raise Unreadable("short tiles of equal rows")
    return View(view.node, layout)
