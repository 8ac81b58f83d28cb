"""One window that replaces a part of a value, at a place that is known.

``x.at[1:-1, 1:-1].set(y)`` is a scatter of one window. Where that is inside of the
value, it is an update of a slice; where it is not, the value stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from partir.ir.attributes import fields
from partir.ir.core import Op, Signature
from partir.ir.types import tensor
from partir.verify.classes.rows import Rows
from partir.verify.joins.joins import JoinedPiece, joined, moved
from partir.verify.layouts.concrete import numbers
from partir.verify.layouts.layout import Digits, Unreadable, View
from partir.verify.layouts.spread import shape_of
from partir.verify.machine.machine import HANDLERS, Machine

UPDATE = "stablehlo.dynamic_update_slice"


class _Window(NamedTuple):
    """How a scatter of one window places it."""

    sizes: tuple[int, ...]  # of the window, in the dimensions of the value
    places: tuple[int | None, ...]  # which of the update's dimensions these are
    addressed: tuple[int, ...]  # dimensions that columns of the index are of
    vector: int | None  # the dimension of the index that has its columns


def written_window(machine: Machine, op: Op, views: Sequence[View]) -> Sequence[View]:
    """A scatter of one window that replaces what is there, at a known place."""
    base, index, update = views
    window = _window(op.signature)
    whole = op.signature.operands[0].shape
    starts = _starts(machine, index, window)
    inside = np.ones((1,) * len(machine.sizes), np.bool_)
    for first, dim in zip(starts, window.addressed, strict=True):
        inside = inside & (first >= 0) & (first <= whole[dim] - window.sizes[dim])
    local: list[Digits] = [
        () if place is None else update.layout.local[place] for place in window.places
    ]
    new = View(update.node, update.layout.with_local(local))
    if inside.all():
        return _updated(machine, op, window, (base, index, new))
    cut = [dim for dim, size in enumerate(window.sizes) if size != whole[dim]]
    if len(cut) != 1 or cut[0] not in window.addressed:
        raise Unreadable("a part in several dimensions, on some devices")
    return [_on_some(machine, base, new, cut[0], starts, window, inside)]


def _window(signature: Signature) -> _Window:
    operand, index, update = signature.operands
    reducer, named = signature.lambdas[0], signature.attrs["scatter_dimension_numbers"]
    how = fields(named)
    if reducer.ops or reducer.results != reducer.arguments[1:]:
        raise Unreadable("a scatter that does not replace what is there")
    vector = how.get("index_vector_dim", (0,))[0]
    own = how.get("update_window_dims", ())
    rest = [size for dim, size in enumerate(index.shape) if dim != vector]
    if math.prod(rest) != 1 or how.get("input_batching_dims", ()):
        raise Unreadable("a scatter of several windows")
    inserted, left = how.get("inserted_window_dims", ()), iter(own)
    places = tuple(
        None if dim in inserted else next(left) for dim in range(len(operand.shape))
    )
    return _Window(
        tuple(1 if place is None else update.shape[place] for place in places),
        places,
        how.get("scatter_dims_to_operand_dims", ()),
        vector if vector < len(index.shape) else None,
    )


def _column(machine: Machine, index: View, window: _Window, number: int) -> View:
    """One column of the index, as a number."""
    if window.vector is not None:
        shape = [1] * len(shape_of(index.layout))
        at = np.full(shape, number, np.int64)
        index = moved(machine, index, window.vector, at, 1)
    return View(index.node, index.layout.with_local(()))


def _starts(machine: Machine, index: View, window: _Window) -> list[Rows]:
    """Where the window begins in each dimension that is addressed, by device."""
    found = []
    for number in range(len(window.addressed)):
        known = numbers(machine.classes, _column(machine, index, window, number))
        if known is None:
            raise Unreadable("a scatter to a place that is not known")
        if known.dtype == np.uint64:
            known = np.minimum(known, np.uint64(np.iinfo(np.int64).max))
        found.append(known.astype(np.int64))
    return found


def _updated(
    machine: Machine, op: Op, window: _Window, views: tuple[View, View, View]
) -> Sequence[View]:
    """The same as an update of a slice, which is inside of the value."""
    base, index, new = views
    whole, place, update = op.signature.operands
    number = tensor((), place.dtype)
    kinds = (whole, tensor(window.sizes, update.dtype), *[number] * len(window.sizes))
    signature = Signature.of(UPDATE, {}, kinds, op.signature.results)
    starts = [machine.number("0", number) for _ in window.sizes]
    for column, dim in enumerate(window.addressed):
        starts[dim] = _column(machine, index, window, column)
    given = (base, new, *starts)
    names = tuple(range(-len(given), 0))  # of no value of the program
    machine.env.update(zip(names, given, strict=True))
    try:
        return HANDLERS[UPDATE](machine, Op(signature, names, (), op.location), given)
    finally:
        for name in names:
            del machine.env[name]


def _on_some(
    machine: Machine,
    base: View,
    new: View,
    dim: int,
    starts: Sequence[Rows],
    window: _Window,
    inside: Rows,
) -> View:
    """Rows that are replaced on some devices; along other dimensions, all are."""
    shape, axes = shape_of(base.layout), len(base.layout.axes)
    place = np.arange(shape[axes + dim])
    wide = [1] * len(shape)
    wide[axes + dim] = place.size
    place = place.reshape(wide)
    ones = (1,) * (len(shape) - axes)
    first = starts[window.addressed.index(dim)]
    at = place - first.reshape(*first.shape, *ones)
    replaced = (at >= 0) & (at < window.sizes[dim])
    replaced &= inside.reshape(*inside.shape, *ones)
    pieces = [JoinedPiece(base, place), JoinedPiece(new, at)]
    return joined(machine, pieces, np.where(replaced, 1, 0), dim, shape)
