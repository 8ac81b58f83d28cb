"""One row of a tiled dimension, read at a place that is computed.

Each device reads a row of its tile, and puts nothing in its place if the place is not
in its tile; summed over devices that is the row. Seen as look-ups are (`lookups.py`),
for every place there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from partir.ir.core import Op
from partir.verify.classes.repetition import is_zero
from partir.verify.classes.rows import Rows
from partir.verify.layouts.layout import Unreadable, View
from partir.verify.layouts.spread import rows_of, tiled_along
from partir.verify.lookups.index_cases import is_made_alike
from partir.verify.lookups.lookups import is_read, leaves, of_whole, part
from partir.verify.machine.indices import plain_start
from partir.verify.machine.machine import Machine
from partir.verify.machine.wholes import whole_rows, whole_view


class _Row(NamedTuple):
    """A tiled value, and where along it a row is read."""

    value: View
    dim: int
    of_class: int
    start: int  # the value that says where, in the program
    rows: Rows

    @property
    def axes(self) -> list[int]:
        """Axes that tile the dimension."""
        count = len(self.value.layout.axes)
        return [axis for axis in range(count) if self.rows.shape[axis] > 1]


def _rows(machine: Machine, op: Op) -> Iterator[_Row]:
    """The rows of which one is read; tiles of one row may be of any dimension."""
    whole, size = op.signature.operands[0].shape, op.signature.results[0].shape
    cut = [d for d in range(len(whole)) if whole[d] != size[d]]
    if len(cut) > 1 or any(size[dim] != 1 for dim in cut):
        raise Unreadable("more than a row, at a place that is not known")
    (value,) = machine.read(op.operands[:1])
    for dim in cut or [d for d in range(len(whole)) if whole[d] == 1]:
        for of_class in tiled_along(value.layout, dim):
            rows = rows_of(value.layout, of_class)
            if rows.size == np.prod(rows.shape[: len(machine.sizes)]) * whole[dim]:
                yield _Row(value, dim, of_class, op.operands[1 + dim], rows)


def _maker(machine: Machine, value: int, name: str) -> Op:
    maker = machine.program.producers.get(value)
    if maker is None or machine.program.ops[maker].signature.name != name:
        raise Unreadable("a place that is not known")
    return machine.program.ops[maker]


def masked_row(machine: Machine, views: tuple[View, ...], read: int) -> View:
    """``select(is here, slice(tile, at), 0)``: a part of the row of the whole."""
    mask, chosen, other = views
    op = _maker(machine, read, "dynamic_slice")
    if not is_zero(machine.classes, other.node):
        raise Unreadable("a row with another number than zero beside it")
    for row in _rows(machine, op):
        made = _read(machine, op, row, mask)
        if made is not None:
            return part(machine, made, row.axes, (chosen, mask))
    raise Unreadable("a row that is not read as its tiles are")


def _read(machine: Machine, op: Op, row: _Row, mask: View) -> View | None:
    """The row of the whole, if the mask says whose tile it is in."""
    value, dim, of_class, axes = row.value, row.dim, row.of_class, row.axes
    tile = row.rows.reshape(*row.rows.shape[: len(machine.sizes)], -1)
    (start,) = machine.read((row.start,))
    for leaf, index in leaves(machine, row.start):
        alike = (is_made_alike(machine.classes, one, index) for one in (mask, start))
        if not all(alike):
            continue
        for whole in whole_rows(machine, op.kind, value, of_class):
            if not is_read(machine, leaf, (mask, start), tile, whole, axes):
                continue
            given = (
                whole_view(machine, value, dim, of_class, axes, whole),
                plain_start(machine, index, whole.size - 1),
            )
            equation = machine.equation(of_whole(op.signature, dim, whole.size))
            (made,) = machine.apply(equation, given, op.signature.results)
            if machine.classes.in_source(made.node):
                return made
    return None
