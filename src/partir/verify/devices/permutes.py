"""collective_permute: each device gets what another has, or zeros."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from partir.ir.core import Op
from partir.ir.types import TensorType
from partir.verify.classes.rows import GARBAGE, Rows
from partir.verify.joins.joins import JoinedPiece, joined
from partir.verify.layouts.groups import dense, names_devices
from partir.verify.layouts.layout import (
    REPEATED,
    Digit,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    digits,
)
from partir.verify.layouts.merging import along_one
from partir.verify.layouts.spread import (
    class_dims,
    narrowed,
    rows_of,
    shape_of,
    with_rows,
)
from partir.verify.machine.machine import Machine, handler
from partir.verify.moves.cutting import by_mask

_NO_BITS = {"f8E8M0FNU": "5.877470e-39"}  # as MLIR spells it


@handler("collective_permute")
def _permute(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    """Where nothing is received, zeros are."""
    if not names_devices(op.signature.attrs):
        raise Unreadable("pairs that do not name devices")
    (view,) = views
    try:
        return _permuted(machine, op, view)
    except Unreadable:  # a dimension may count several of the class
        one = view
        for dim in range(len(view.layout.local)):
            one = along_one(machine.classes, one, dim)
        if one == view:
            raise
        return _permuted(machine, op, one)


def _permuted(machine: Machine, op: Op, view: View) -> Sequence[View]:
    pairs = dense(op.signature.attrs["source_target_pairs"])
    (type_,), sizes = op.signature.results, machine.sizes
    sources = np.full(math.prod(sizes), -1)
    sources[pairs[:, 1]] = pairs[:, 0]
    gets = (sources >= 0).reshape(sizes)
    own = np.arange(sources.size)
    received = _received(machine, view, np.where(sources < 0, own, sources))
    if gets.all():
        return [received]
    if not machine.classes.zeros:
        return [_without(machine, view, received, ~gets)]
    shape = sizes + (1,) * len(type_.shape)
    return [by_mask(machine, gets.reshape(shape), received, _zeros(machine, type_))]


def _without(machine: Machine, view: View, received: View, gone: Rows) -> View:
    """Rows that are nowhere on devices without a sender: zeros too, but none counts.

    Where no shard_map of the source says so, nothing rests on these being zeros, and
    rows that are nowhere are easier to see through.
    """
    sizes, layout = machine.sizes, received.layout
    gone = gone.reshape(sizes + (1,) * len(layout.local))
    held = {dim: rows_of(view.layout, dim) for dim in class_dims(view.layout)}
    tiled = [d for d, rows in held.items() if math.prod(rows.shape[: len(sizes)]) > 1]
    if not tiled:
        which = np.where(gone, GARBAGE, 0)
        at = np.zeros((1,) * which.ndim, np.int64)
        shape = shape_of(layout)
        return joined(machine, [JoinedPiece(received, at)], which, None, shape)
    after = {dim: rows_of(layout, dim) for dim in tiled}
    moved = [d for d in tiled if (after[d] != held[d]).any()]
    dim = (moved or tiled)[0]  # garbage in one dimension is garbage
    rows, nowhere = np.broadcast_arrays(after[dim], gone)
    made = narrowed(np.where(nowhere, GARBAGE, rows))
    size = machine.term(received).dims[dim]
    return View(received.node, with_rows(layout, dim, made, size))


def _zeros(machine: Machine, type_: TensorType) -> View:
    """What has no bits: a number that is not zero, of a type without."""
    literal = _NO_BITS.get(type_.dtype, "0.000000e+00")
    if type_.dtype == "i1":
        literal = "false"
    elif type_.dtype[0] in "iu":
        literal = "0"
    elif type_.dtype.startswith("complex"):
        literal = f"({literal},{literal})"
    return machine.number(literal, type_)


def _received(machine: Machine, view: View, sources: np.ndarray) -> View:
    """What devices hold after each got all of some device's."""
    layout, sizes = view.layout, machine.sizes
    coordinates = np.unravel_index(sources.reshape(sizes), sizes)
    axes = _as_digits(layout, coordinates, sizes)
    if axes is not None:
        return View(view.node, DigitLayout(layout.local, axes, layout.tables))
    for dim in class_dims(layout):
        rows = rows_of(layout, dim)
        full = np.broadcast_to(rows, (*sizes, *rows.shape[len(sizes) :]))
        if (full[tuple(coordinates)] != full).any():
            size = machine.term(view).dims[dim]
            layout = with_rows(layout, dim, narrowed(full[tuple(coordinates)]), size)
    return View(view.node, layout)


def _as_digits(
    layout: DigitLayout, coordinates: Sequence[np.ndarray], sizes: Sequence[int]
) -> tuple[Digits, ...] | None:
    """Digits of every axis after devices got what others had; None if it has none."""
    held = {d.dim for items in layout.axes for d in items} - {REPEATED}
    alone = DigitLayout((), layout.axes)
    found: dict[int, Rows] = {}
    for dim in held:
        before = np.broadcast_to(rows_of(alone, dim), tuple(sizes))
        found[dim] = before[tuple(coordinates)]
        if found[dim].reshape(-1)[0]:
            return None
    made = []
    for axis, size in enumerate(sizes):
        place = [slice(None) if n == axis else 0 for n in range(len(sizes))]
        steps = {dim: rows[tuple(place)] for dim, rows in found.items()}
        items = _along(steps, size)
        if items is None:
            return None
        made.append(items)
    after = DigitLayout((), tuple(made))
    for dim, rows in found.items():
        if not np.array_equal(np.broadcast_to(rows_of(after, dim), rows.shape), rows):
            return None
    return tuple(made)


def _along(steps: Mapping[int, Rows], size: int) -> Digits | None:
    """Digits, major first, that may add this much to each dimension at every place."""
    items: list[Digit] = []
    done = 1
    while done < size:
        moves = {dim: int(rows[done]) for dim, rows in steps.items() if rows[done]}
        if len(moves) > 1:
            return None
        dim, stride = next(iter(moves.items()), (REPEATED, 0))
        part = max(_counted(steps, size, done), default=1)
        if part == 1:
            return None
        items.append(Digit(dim, stride, part))
        done *= part
    return digits(reversed(items))


def _counted(steps: Mapping[int, Rows], size: int, done: int) -> list[int]:
    """Sizes that a digit may have which starts at a place."""
    return [
        part
        for part in range(2, size // done + 1)
        if size % (done * part) == 0
        and all(
            np.array_equal(rows[: done * part : done], rows[done] * np.arange(part))
            for rows in steps.values()
        )
    ]
