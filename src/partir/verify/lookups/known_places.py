"""Look-ups at places that are known: rows, as slices and reversals read them.

``x[jnp.array([2, 0, 5])]`` reads row after row, whatever devices have of x. An index
that is out of range counts as the nearest in range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from partir.ir.attributes import fields, ints
from partir.ir.core import Op, Signature
from partir.verify.classes.rows import GARBAGE, Rows
from partir.verify.joins.joins import moved
from partir.verify.layouts.concrete import shown_numbers
from partir.verify.layouts.layout import (
    Digit,
    Digits,
    Unreadable,
    View,
    digits,
    split_off,
)
from partir.verify.layouts.spread import shape_of
from partir.verify.machine.machine import Machine

_UNKNOWN = np.iinfo(np.int64).min  # no index that is in order with others


class RowLookup(NamedTuple):
    """A look-up of whole rows along one dimension."""

    dim: int
    vector: int | None  # the dimension of indices that has their columns
    windows: tuple[int, ...]  # dimensions of the operand that the result has
    offsets: tuple[int, ...]  # and where


def row_lookup(signature: Signature) -> RowLookup:
    """How a gather reads rows of one dimension, and all of the others."""
    operand, indices = signature.operands
    numbers = fields(signature.attrs["dimension_numbers"])
    sizes = ints(signature.attrs["slice_sizes"])
    addressed = numbers.get("start_index_map", ())
    if len(addressed) != 1 or numbers.get("operand_batching_dims", ()):
        raise Unreadable("indices of several dimensions at once")
    (dim,) = addressed
    if any(n != (1 if d == dim else operand.shape[d]) for d, n in enumerate(sizes)):
        raise Unreadable("a look-up that is not of single rows")
    vector = numbers.get("index_vector_dim", (0,))[0]
    gone = numbers.get("collapsed_slice_dims", ())
    return RowLookup(
        dim,
        vector if vector < len(indices.shape) else None,
        tuple(d for d in range(len(operand.shape)) if d not in gone),
        numbers.get("offset_dims", ()),
    )


def known_lookup(machine: Machine, op: Op, views: Sequence[View]) -> View:
    """Rows at places that are known, on each device."""
    value, index = views
    how = row_lookup(op.signature)
    places = _places(machine, index, how.vector)
    count, axes = len(value.layout.local), len(machine.sizes)
    width = math.prod(places.shape[axes:])
    size = shape_of(value.layout)[axes + how.dim]
    wide = [*places.shape[:axes], *(1 for _ in range(count))]
    wide[axes + how.dim] = width
    at = np.where(places == _UNKNOWN, GARBAGE, np.clip(places, 0, size - 1))
    made = moved(machine, value, how.dim, at.reshape(wide), width)
    return _arranged(made, how, places.shape[axes:], op.signature.results[0].shape)


def _places(machine: Machine, index: View, vector: int | None) -> Rows:
    """The index at every place of every device; `_UNKNOWN` where it is not known."""
    found = shown_numbers(machine.classes, index)
    if found is None:
        raise Unreadable("a look-up at places that are not known")
    values, known = found
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(np.iinfo(np.int64).max))
    rows = np.where(known, values.astype(np.int64), _UNKNOWN)
    rows = np.broadcast_to(rows, shape_of(index.layout))
    return rows if vector is None else rows.take(0, len(machine.sizes) + vector)


def _arranged(
    made: View, how: RowLookup, batch: Sequence[int], shape: Sequence[int]
) -> View:
    """Dimensions in the order in which a look-up has them."""
    rest: list[Digit] = list(made.layout.local[how.dim])
    outer: list[Digits] = []
    for size in reversed(batch):
        taken, rest = split_off(rest, size)
        outer.append(digits(taken))
    local: list[Digits] = []
    inner = iter(how.windows)
    for dim in range(len(shape)):
        if dim in how.offsets:
            window = next(inner)
            local.append(() if window == how.dim else made.layout.local[window])
        else:
            local.append(outer.pop())
    return View(made.node, made.layout.with_local(local))
