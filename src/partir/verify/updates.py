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
from partir.verify.indices import plain_start
from partir.verify.layout import Unreadable, View
from partir.verify.lookups import domain, gathered, is_split, leaves, on_devices, part
from partir.verify.machine import Machine
from partir.verify.rows import Rows
from partir.verify.spread import along, rows_of
from partir.verify.sums import is_zero


class _Row(NamedTuple):
    """A tiled value, and where along it a row is read or replaced."""

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


def _row(machine: Machine, op: Op, size: tuple[int, ...], first: int) -> _Row:
    whole = op.signature.operands[0].shape
    cut = [d for d in range(len(whole)) if whole[d] != size[d]]
    if len(cut) != 1 or size[cut[0]] != 1:
        raise Unreadable("more than a row, at a place that is not known")
    (dim,) = cut
    (value,) = machine.read(op.operands[:1])
    of_class = along(value.layout, dim)
    if of_class is None:
        raise Unreadable("a row of what has none")
    rows = rows_of(value.layout, of_class)
    if rows.size != np.prod(rows.shape[: len(machine.sizes)]) * whole[dim]:
        raise Unreadable("rows that other dimensions count, too")
    return _Row(value, dim, of_class, op.operands[first + dim], rows)


def _wholes(machine: Machine, row: _Row, mask: View) -> Iterator[tuple[View, View]]:
    """The whole value and the place in it, if the mask says whose tile it is in."""
    count, axes = machine.term(row.value).dims[row.of_class], row.axes
    tile = row.rows.reshape(*row.rows.shape[: len(machine.sizes)], -1)
    if not np.array_equal(np.sort(row.rows, None), np.arange(count)):
        raise Unreadable("rows that several devices have, or none")
    (start,) = machine.read((row.start,))
    for leaf, index in leaves(machine, row.start):
        values = domain(count, machine, leaf, (mask, start), tile.shape[-1])
        here = on_devices(machine, mask, leaf, values)
        place = np.clip(on_devices(machine, start, leaf, values), 0, tile.shape[-1] - 1)
        if is_split(machine, tile, here, place, np.clip(values, 0, count - 1), axes):
            yield (
                gathered(machine, row.value, row.dim, row.of_class, count, axes),
                plain_start(machine, index, count - 1),
            )


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
    row = _row(machine, op, op.signature.results[0].shape, 1)
    for whole, index in _wholes(machine, row, mask):
        equation = machine.equation(op.signature)
        (made,) = machine.apply(equation, (whole, index), op.signature.results)
        if machine.classes.in_source(made.node):
            return part(machine, made, row.axes, (chosen, mask))
    raise Unreadable("a row that is not read as its tiles are")
