"""Tiles of which the last are short."""

from __future__ import annotations

from collections.abc import Sequence

from partir.verify.joins.joins import moved
from partir.verify.layouts.layout import DigitLayout, View, repeated, size_of
from partir.verify.layouts.spread import dims_held
from partir.verify.layouts.tiles import rows_of_tiles
from partir.verify.machine.machine import Machine


def uneven_tile(machine: Machine, whole: View, tiling: Sequence[Sequence[int]]) -> View:
    """A tile of a value; what lies behind the end of a short one is not known.

    Unless all rows are equal: then it is as they are, which says more.
    """
    layout = whole.layout
    view = View(whole.node, DigitLayout(layout.local, machine.alone, layout.tables))
    for dim, axes in enumerate(tiling):
        size = size_of(layout.local[dim])
        if not axes:
            continue
        at = rows_of_tiles(size, axes, machine.sizes, dim, len(layout.local))
        length = at.shape[len(machine.sizes) + dim]
        if dims_held(layout.local[dim]):
            view = moved(machine, view, dim, at, length)
            continue
        local = list(view.layout.local)
        local[dim] = repeated(length)
        view = View(view.node, view.layout.with_local(local))
    return view
