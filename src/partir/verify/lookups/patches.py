"""Rows of tiled dimensions, replaced at places that are computed.

A device replaces rows of what it has of a dimension: its tile, one that is padded so
that what reaches over an edge falls outside, or rows that it writes back as they were
(``update(tile, select(is here, new, slice(tile, p)), p)``). Position by position: if
for every start there is, a position is replaced when its row is, and by the same row
of what is new, it shows that row of the whole after the update. Of other positions
nothing is known.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from partir.ir.core import Op, Signature
from partir.ir.types import tensor
from partir.verify.classes.rows import GARBAGE, Rows, fill
from partir.verify.joins.joins import are_numbers, moved
from partir.verify.layouts.concrete import number_class, numbers
from partir.verify.layouts.layout import (
    DigitLayout,
    Unreadable,
    View,
    repeated,
    size_of,
)
from partir.verify.layouts.spread import along, rows_of, tiled_along
from partir.verify.lookups.index_cases import is_made_alike
from partir.verify.lookups.lookups import domain, leaves, on_devices
from partir.verify.machine.indices import plain_start
from partir.verify.machine.machine import Machine
from partir.verify.machine.wholes import whole_rows, whole_view

UPDATE = "stablehlo.dynamic_update_slice"


class _Cut(NamedTuple):
    """A dimension of which a part is replaced."""

    dim: int
    node: int | None  # a number that the whole is; None: it is the class at hand
    of_class: int | None  # None: all rows are equal
    rows: Rows  # by device and position
    whole: Rows  # of the whole
    size: int  # how many rows are replaced
    start: int  # the value that says where, in the program

    @property
    def length(self) -> int:
        """How many positions a device has."""
        return int(self.rows.shape[-1])

    @property
    def total(self) -> int:
        """How many rows the whole has."""
        return self.whole.size


class _Starts(NamedTuple):
    """For all starts that there may be, where a device and the whole replace rows."""

    begin: View  # of the whole
    here: np.ndarray  # by start and device: whether rows are replaced
    place: np.ndarray  # and from where on
    whole: np.ndarray  # where the whole does so


class _Placed(NamedTuple):
    """How positions of a dimension show rows of the whole."""

    cut: _Cut
    begin: View
    rows: Rows  # over axes and positions


def patched(machine: Machine, op: Op) -> View:
    """What an update leaves: rows of the whole, updated, if the source has that."""
    signature = op.signature
    size = signature.operands[1].shape
    (base,) = machine.read(op.operands[:1])
    masks, new = _written(machine, op)
    for dims in _dims(op, base, masks):
        for placed in _places(machine, op, base, dims, masks):
            made = _applied(machine, op, base, new, placed)
            if machine.classes.in_source(made.node):
                for one in placed:
                    dim, length = one.cut.dim, one.cut.length
                    shape = (*machine.sizes, *(1 for _ in size[1:]), length)
                    at = np.moveaxis(one.rows.reshape(shape), -1, dim - len(size))
                    made = moved(machine, made, dim, at, length)
                return made
    raise Unreadable("rows that are not replaced as their tiles are")


def _dims(op: Op, base: View, masks: Sequence[int]) -> Iterator[list[int]]:
    """Dimensions of which a part is replaced; under a condition, tiles of one row too.

    Whether such a tile is replaced is all that there is to say of it.
    """
    whole, size = (type_.shape for type_ in op.signature.operands[:2])
    cut = [d for d in range(len(size)) if whole[d] != size[d]]
    yield cut
    for dim in range(len(size) if masks else 0):
        if whole[dim] == 1 and tiled_along(base.layout, dim):
            yield sorted((*cut, dim))


def _places(
    machine: Machine, op: Op, base: View, dims: Sequence[int], masks: Sequence[int]
) -> Iterator[list[_Placed]]:
    """What positions may show along all dimensions, by all of the conditions."""
    each = [[*_ways(machine, op, base, dim, masks)] for dim in dims]
    for ways in itertools.product(*each):
        used = {mask for _, own in ways for mask in own}
        if len(used) == len(masks):  # each must have been looked at
            yield [placed for placed, _ in ways]


def _written(machine: Machine, op: Op) -> tuple[list[int], View]:
    """What is written, and the conditions under which; else what was there before."""
    choice = _maker(machine, op.operands[1])
    if choice is None or not _keeps(machine, op, choice):
        return [], machine.read(op.operands[1:2])[0]
    left, found = [choice.operands[0]], []
    while left:
        mask = left.pop()
        made = _maker(machine, mask)
        name = "" if made is None else made.signature.name
        if made is not None and name in ("and", "broadcast_in_dim", "reshape"):
            left += made.operands
        else:
            found.append(mask)
    if any(machine.program.types[mask].shape for mask in found):
        raise Unreadable("a choice that is not the same in all places")
    return sorted({*found}), machine.read(choice.operands[1:2])[0]


def _keeps(machine: Machine, op: Op, choice: Op) -> bool:
    """Whether an update writes what a choice makes of what was there before."""
    if choice.signature.name != "select":
        return False
    before = _maker(machine, choice.operands[2])
    if before is None or before.signature.name != "dynamic_slice":
        return False
    return before.operands == (op.operands[0], *op.operands[2:])


def _maker(machine: Machine, value: int) -> Op | None:
    maker = machine.program.producers.get(value)
    return None if maker is None else machine.program.ops[maker]


def _ways(
    machine: Machine, op: Op, base: View, dim: int, masks: Sequence[int]
) -> Iterator[tuple[_Placed, tuple[int, ...]]]:
    """What positions of a dimension may show, and the conditions that say so."""
    for cut in _cuts(machine, op, base, dim):
        (start,) = machine.read((cut.start,))
        if cut.length == cut.total and (cut.rows == cut.whole).all():
            index = plain_start(machine, start, cut.total - cut.size)
            shape = (*machine.sizes, cut.length)
            rows = np.broadcast_to(np.arange(cut.length), shape)
            yield _Placed(cut, index, rows), ()
        for starts, used in _starts(machine, cut, start, masks):
            yield _Placed(cut, starts.begin, _shown(cut, starts, bool(used))), used


def _cuts(machine: Machine, op: Op, base: View, dim: int) -> Iterator[_Cut]:
    """The rows that devices have of a dimension, and those that the whole may have."""
    length, size = (type_.shape[dim] for type_ in op.signature.operands[:2])
    counted, start = along(base.layout, dim), op.operands[2 + dim]
    if not are_numbers(machine, base):
        for of_class in tiled_along(base.layout, dim):
            rows = _rows_along(machine, base, of_class, length)
            for whole in whole_rows(machine, UPDATE, base, of_class):
                if whole.size > size:
                    yield _Cut(dim, None, of_class, rows, whole, size, start)
        if counted is not None:
            return
    rows = np.zeros((*machine.sizes, length), np.int64)
    if counted is not None:
        rows = _rows_along(machine, base, counted, length)
    for node, count in _equal_rows(machine, counted is not None):
        whole = np.full(count, 0 if node is None else fill(node))
        if count > size:
            yield _Cut(dim, node, None, rows, whole, size, start)


def _rows_along(machine: Machine, base: View, of_class: int, length: int) -> Rows:
    """By device and position along one dimension."""
    rows, axes = rows_of(base.layout, of_class), len(machine.sizes)
    if rows.size != np.prod(rows.shape[:axes]) * length:
        raise Unreadable("rows that other dimensions count, too")
    rows = rows.reshape(*rows.shape[:axes], length)
    return np.broadcast_to(rows, (*machine.sizes, length))


def _equal_rows(machine: Machine, numbers_: bool) -> list[tuple[int | None, int]]:
    """Sizes of dimensions that the source replaces rows of; and of which number."""
    terms = [machine.classes.terms[n] for n in machine.classes.nodes_of(UPDATE)]
    found = {(term.refs[0].node, size) for term in terms for size in term.new}
    if numbers_:
        known = machine.classes.terms
        return sorted((node, size) for node, size in found if not known[node].dims)
    return [(None, size) for size in sorted({size for _, size in found})]


def _starts(
    machine: Machine, cut: _Cut, start: View, masks: Sequence[int]
) -> Iterator[tuple[_Starts, tuple[int, ...]]]:
    """Where rows are replaced, of which index that the source has."""
    known = numbers(machine.classes, start)
    if known is not None:
        yield from _at_numbers(machine, cut, known, masks)
        return
    for leaf, index in leaves(machine, cut.start):
        with contextlib.suppress(Unreadable):
            yield _starts_of(machine, cut, start, masks, leaf, index)


def _starts_of(
    machine: Machine,
    cut: _Cut,
    start: View,
    masks: Sequence[int],
    leaf: int,
    index: View,
) -> tuple[_Starts, tuple[int, ...]]:
    """For each value that an index may have."""
    views = machine.read(masks)
    made = [is_made_alike(machine.classes, view, index) for view in views]
    conditions = [*itertools.compress(views, made)]
    if not is_made_alike(machine.classes, start, index):
        raise Unreadable("a start that is made of something else")
    reach = max(cut.length, cut.total) + cut.size
    values = domain(cut.total, machine, leaf, (start, *conditions), reach)
    here = np.ones((len(values), *machine.sizes), np.bool_)
    for view in conditions:
        here = here & on_devices(machine, view, leaf, values)
    place = _within(on_devices(machine, start, leaf, values), cut.length - cut.size)
    last = cut.total - cut.size
    whole = _within(values, last).reshape(-1, *(1 for _ in machine.sizes))
    found = _Starts(plain_start(machine, index, last), here, place, whole)
    return found, tuple(itertools.compress(masks, made))


def _within(values: np.ndarray, last: int) -> np.ndarray:
    """Starts, those out of range moved to the nearest in range."""
    if values.dtype == np.uint64:  # the largest are no negative numbers
        values = np.minimum(values, np.uint64(np.iinfo(np.int64).max))
    return np.clip(values.astype(np.int64), 0, last)


def _at_numbers(
    machine: Machine, cut: _Cut, known: np.ndarray, masks: Sequence[int]
) -> Iterator[tuple[_Starts, tuple[int, ...]]]:
    """Starts that are numbers: the whole's is where a device's falls inside."""
    last, axes = cut.total - cut.size, len(machine.sizes)
    place = _within(known.reshape(known.shape[:axes]), cut.length - cut.size)
    place = np.broadcast_to(place, machine.sizes)
    here, used = np.ones(machine.sizes, np.bool_), []
    for mask, view in zip(masks, machine.read(masks), strict=True):
        found = numbers(machine.classes, view)
        if found is not None:
            here = here & found.reshape(found.shape[:axes])
            used.append(mask)
    first, is_known = _first(cut)
    inside = here & _is_inside(cut, place, bool(used))
    for at in np.unique((first + place)[inside & is_known]):
        if 0 <= at <= last:
            node = number_class(machine.classes, int(at), "i64")
            index = View(node, DigitLayout((), machine.alone))
            whole = np.full((1, *(1 for _ in machine.sizes)), at)
            yield _Starts(index, here[None], place[None], whole), tuple(used)


def _is_inside(cut: _Cut, place: np.ndarray, masked: bool) -> np.ndarray:
    """Whether a start is not one of the ends, where others would be moved to."""
    return masked | ((place > 0) & (place < cut.length - cut.size))


def _first(cut: _Cut) -> tuple[np.ndarray, np.ndarray]:
    """By device, which row of the whole is at position 0, and whether rows say so."""
    distinct, where, often = np.unique(cut.whole, return_index=True, return_counts=True)
    place = np.clip(np.searchsorted(distinct, cut.rows), 0, distinct.size - 1)
    single = (distinct[place] == cut.rows) & (often[place] == 1)
    shift = where[place] - np.arange(cut.length)
    at = single.argmax(-1)[..., None]
    return np.take_along_axis(shift, at, -1)[..., 0], single.any(-1)


def _shown(cut: _Cut, starts: _Starts, masked: bool) -> Rows:
    """The row of the whole at each position that is replaced when the row is.

    Which one that may be is taken from the rows, else from one of the starts; whatever
    it is, it is so only if all rows and all starts agree.
    """
    inside = starts.here & _is_inside(cut, starts.place, masked)
    shift = np.broadcast_to(starts.whole, inside.shape) - starts.place
    first, is_known = _first(cut)
    some = np.take_along_axis(shift, inside.argmax(0)[None], 0)[0]
    first = np.where(is_known, first, some)
    own = np.broadcast_to(starts.whole - first[None], inside.shape)
    agrees = starts.here & (own == starts.place)
    wrong = _covered(starts.place, starts.here & ~agrees, cut)
    wrong |= _covered(own, ~agrees, cut)
    rows = first[..., None] + np.arange(cut.length)
    there = (rows >= 0) & (rows < cut.total)
    there &= cut.whole[np.where(there, rows, 0)] == cut.rows
    there &= cut.rows != GARBAGE
    return np.where(there & ~wrong, rows, GARBAGE)


def _covered(start: np.ndarray, counts: np.ndarray, cut: _Cut) -> np.ndarray:
    """By device, the positions that windows from these starts on reach."""
    devices = int(np.prod(counts.shape[1:]))
    edges = np.zeros((devices, cut.length + 1), np.int64)
    number = np.broadcast_to(np.arange(devices), (len(counts), devices))
    chosen = counts.reshape(len(counts), devices)
    flat = start.reshape(len(counts), devices)
    for add, end in ((1, flat), (-1, flat + cut.size)):
        where = np.clip(end, 0, cut.length)
        np.add.at(edges, (number[chosen], where[chosen]), add)
    reached = np.cumsum(edges, -1)[:, :-1] > 0
    return reached.reshape(*counts.shape[1:], cut.length)


def _applied(
    machine: Machine, op: Op, base: View, new: View, placed: Sequence[_Placed]
) -> View:
    """The update of the whole."""
    (result,) = op.signature.results
    shape = list(result.shape)
    for cut, _, _ in placed:
        shape[cut.dim] = cut.total
        base = _whole(machine, base, cut)
    type_ = tensor(tuple(shape), result.dtype)
    types = (type_, *op.signature.operands[1:])
    equation = machine.equation(Signature.of(op.kind, {}, types, (type_,)))
    indices = [index for _, index, _ in placed]
    (made,) = machine.apply(equation, (base, new, *indices), (type_,))
    return made


def _whole(machine: Machine, base: View, cut: _Cut) -> View:
    """What rows are replaced of, whole along one dimension."""
    local = list(base.layout.local)
    local[cut.dim] = repeated(cut.total)
    if cut.of_class is None:
        if cut.node is None:
            return View(base.node, base.layout.with_local(local))
        local = [repeated(size_of(items)) for items in local]
        return View(cut.node, DigitLayout(tuple(local), machine.alone))
    axes = range(len(machine.sizes))
    tiled = [a for a in axes if (cut.rows != cut.rows.take([0], a)).any()]
    return whole_view(machine, base, cut.dim, cut.of_class, tiled, cut.whole)
