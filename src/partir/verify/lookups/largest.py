"""top_k: the largest of all are the largest of the largest of tiles.

top_k orders all numbers of a type, nan and both zeros among them, and of equal ones the
first comes first. So whatever is behind the k largest of a tile is behind the k largest
of all tiles, one behind the other. Where these are in the whole follows from where they
are in their tile, and where that begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partir.ir.attributes import fields, ints
from partir.ir.core import Op, Signature
from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import Rows
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.layout import (
    Digit,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    digits,
    size_of,
)
from partir.verify.layouts.spread import MOST, rows_of
from partir.verify.lookups.index_cases import function, leaf_rows
from partir.verify.machine.machine import Machine, handler
from partir.verify.reductions.pairs import read_digit, read_special

TOP_K = "chlo.top_k"


class LargestOfTiles(NamedTuple):
    """Where the largest of tiles' largest are among these, and where in the whole."""

    of: View  # the tiles' largest, one behind the other
    among: View
    whole: View


@handler(TOP_K)
def _top_k(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """The largest; of tiles' largest, those of the whole if the source has that."""
    made = machine.by_equation(op, views)
    classes, (view,) = machine.classes, views
    if classes.source is None or classes.in_source(made[0].node):
        return made
    try:
        before = _tiles(machine, view, op.signature.results[0].shape[-1])
        values, places = machine.by_equation(op, [before])
    except Unreadable:
        return made
    if not classes.in_source(values.node):
        return made
    machine.largest[made[1].node] = LargestOfTiles(view, made[1], places)
    return [values, made[1]]


def _tiles(machine: Machine, view: View, count: int) -> View:
    """What top_k of tiles read, the tiles one behind the other."""
    term, layout = machine.term(view), view.layout
    if term.kind != TOP_K or term.result or layout.tables:
        raise Unreadable("no largest of tiles")
    (ref,) = term.refs
    inside = [read_special(term, ref, item) for item in term.specials[0]]
    if _kept(term) < min(count, size_of(tuple(inside))):
        raise Unreadable("the largest of tiles, too few of them")
    outer = _outer(term, layout)

    def moved(items: Digits) -> list[Digit]:
        return [read_digit(term, ref, digit) for digit in items]

    local = [moved(items) for items in layout.local[:-1]]
    local.append([*moved(outer), *inside])
    axes = tuple(digits(moved(items)) for items in layout.axes)
    return View(ref.node, DigitLayout(tuple(map(digits, local)), axes))


def _kept(term: ClassTerm) -> int:
    """How many there are of each tile."""
    return term.new[0] if term.new else 1


def _outer(term: ClassTerm, layout: DigitLayout) -> Digits:
    """Digits of the last dimension that count tiles: behind them, all of each."""
    new, count = len(term.free), _kept(term)
    *before, last = layout.local
    labels = (*layout.axes, *before)
    if any(digit.dim == new for items in labels for digit in items):
        raise Unreadable("the largest of tiles, apart")
    if count == 1:
        return last
    if not last or last[-1] != Digit(new, 1, count):
        raise Unreadable("the largest of tiles, in another order")
    if any(digit.dim == new for digit in last[:-1]):
        raise Unreadable("the largest of tiles, in another order")
    return last[:-1]


def places_in_whole(machine: Machine, op: Op, value: View, index: View) -> View | None:
    """A look-up, by places among tiles' largest, of their places in the whole."""
    known = machine.largest.get(index.node)
    if known is None or not _takes_along(op.signature):
        return None
    rank = len(known.among.layout.local)
    if index.layout.with_local(index.layout.local[:rank]) != known.among.layout:
        return None
    try:
        right = _counts_in_whole(machine, value, known.of)
    except Unreadable:
        return None
    return known.whole if right else None


def _takes_along(signature: Signature) -> bool:
    """Whether a gather reads single elements of the last dimension, row by row."""
    value, index = signature.operands
    last = len(value.shape) - 1
    numbers = fields(signature.attrs["dimension_numbers"])
    others = tuple(range(last))
    expected = {
        "collapsed_slice_dims": (last,),
        "start_index_map": (last,),
        "operand_batching_dims": others,
        "start_indices_batching_dims": others,
        "index_vector_dim": (last + 1,),
        "offset_dims": (),
    }
    return (
        all(tuple(numbers.get(name, ())) == want for name, want in expected.items())
        and set(ints(signature.attrs["slice_sizes"])) == {1}
        and index.shape[last + 1 :] in ((), (1,))
        and signature.results[0].shape == index.shape[: last + 1]
    )


def _counts_in_whole(machine: Machine, value: View, of: View) -> bool:
    """Whether a value is, for each of tiles' largest, the place in the whole.

    For all places that there are in a tile, and at each place of each device.
    """
    term = machine.term(of)
    dtype = machine.term(value).dtype
    leaf = machine.classes.of(term._replace(result=1, dtype=dtype))
    count = size_of(value.layout.local[-1])
    if count != size_of(of.layout.local[-1]):
        return False
    wanted = [rows_of(of.layout, dim) for dim in range(len(term.dims))]
    have = leaf_rows(machine.classes, value, leaf)
    if any((a != b).any() for a, b in zip(have, wanted, strict=True)):
        return False
    (ref,) = term.refs
    inside = [read_special(term, ref, item) for item in term.specials[0]]
    length = size_of(tuple(inside))
    if length * count > MOST:
        raise Unreadable("a dimension of too many places to look up in")
    places = np.arange(length)
    start = np.arange(count) // _kept(term) * length
    found = _numbers(machine.classes, value, leaf, places)
    return bool((found == places.reshape(-1, *(1,) * (found.ndim - 1)) + start).all())


def _numbers(classes: Classes, value: View, leaf: int, places: Rows) -> np.ndarray:
    """A value for each place in a tile, along axes and local dimensions."""
    made = function(classes, value.node, leaf, places)
    rank = len(value.layout.axes) + len(value.layout.local)
    if made is None:
        raise Unreadable("an index that is computed in an unknown way")
    index = []
    for dim in range(made.ndim - 1):
        rows = np.zeros((1,) * rank, np.int64)
        if made.shape[dim + 1] > 1:
            rows = rows_of(value.layout, dim)
        if (rows < 0).any() or (rows >= made.shape[dim + 1]).any():
            raise Unreadable("an index that is shifted by what is not known")
        index.append(rows)
    if not index:
        return made.reshape(-1, *(1,) * rank)
    shown: list[Any] = [*np.broadcast_arrays(*index)]
    if shown[0].size * len(places) > MOST:
        raise Unreadable("a dimension of too many places to look up in")
    return np.asarray(made[(slice(None), *shown)]).astype(np.int64)
