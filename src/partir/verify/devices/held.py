"""Whole tensors as devices hold them, and what devices hold as whole tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from partir.ir.types import TensorType
from partir.verify.joins.uneven import uneven_tile
from partir.verify.layouts.layout import (
    DigitLayout,
    Unreadable,
    View,
    depends_on,
    gathered,
)
from partir.verify.layouts.merging import plain
from partir.verify.layouts.spread import dims_held
from partir.verify.layouts.tiles import is_even, shown_in_tiles, tile_shape
from partir.verify.machine.machine import Known, Machine, Unknown


def in_tiles(
    machine: Machine, known: Known, type_: TensorType, tiling: Sequence[Sequence[str]]
) -> Known:
    """A whole value as the devices of a machine hold it; by names of axes."""
    if isinstance(known, Unknown):
        return known
    sizes = machine.sizes
    numbers = tuple(tuple(map(machine.names.index, axes)) for axes in tiling)
    if 0 in type_.shape:
        return machine.empty(type_.with_shape(tile_shape(type_.shape, numbers, sizes)))
    try:
        if is_even(type_.shape, numbers, sizes):
            try:
                return shown_in_tiles(known, type_.shape, numbers, sizes)
            except Unreadable:  # several dimensions cut at other places
                pass
        return plain(machine.classes, uneven_tile(machine, known, numbers))
    except Unreadable as error:
        return Unknown(None, str(error))


def given_in_tiles(
    machine: Machine, known: Known, type_: TensorType, tiling: Sequence[Sequence[str]]
) -> Known:
    """The same of what devices are given: nobody says what is behind the end.

    Of equal rows, one among them, short tiles do not tell that.
    """
    found = in_tiles(machine, known, type_, tiling)
    if isinstance(found, Unknown) or isinstance(known, Unknown) or 0 in type_.shape:
        return found
    sizes = dict(zip(machine.names, machine.sizes, strict=True))
    whole = zip(known.layout.local, type_.shape, tiling, strict=False)
    for held, size, axes in whole:
        if size % math.prod(sizes[axis] for axis in axes) and not dims_held(held):
            return Unknown(None, "short tiles of equal rows")
    return found


def put_together(machine: Machine, view: View, tiling: Sequence[Sequence[str]]) -> View:
    """The whole tensor of which devices hold such tiles: it depends on no device."""
    layout = view.layout
    for dim, axes in enumerate(tiling):
        layout = gathered(layout, dim, [machine.names.index(axis) for axis in axes])
    for axis, name in enumerate(machine.names):
        if depends_on(layout, axis):
            raise Unreadable(f"a value that is taken to be equal along {name}")
    return View(view.node, DigitLayout(layout.local, (), layout.tables))
