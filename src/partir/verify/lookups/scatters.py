"""Scatters into a tiled dimension: each device takes what belongs to its tile.

An index that is not in a tile is out of range there, and leaves the tile as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from partir.ir.attributes import fields
from partir.ir.core import Op, Signature
from partir.ir.types import tensor
from partir.verify.classes.monoids import OPS, identity, monoid_of
from partir.verify.classes.repetition import starts_reduction
from partir.verify.classes.rows import GARBAGE, Rows
from partir.verify.joins.joins import moved
from partir.verify.layouts.align import Equation
from partir.verify.layouts.concrete import numbers
from partir.verify.layouts.layout import (
    Unreadable,
    View,
    depends_on,
    repeated,
    size_of,
)
from partir.verify.layouts.spread import along, rows_of
from partir.verify.lookups.columns import Column, columns
from partir.verify.lookups.index_cases import leaf_rows, reach
from partir.verify.lookups.lookups import domain, leaves, on_devices, rises
from partir.verify.lookups.told import SORTED, UNIQUE, believe, is_told, told
from partir.verify.lookups.written import written_window
from partir.verify.machine.indices import plain_index
from partir.verify.machine.machine import Machine, handler
from partir.verify.machine.wholes import whole_view
from partir.verify.reductions.reductions import reduced_over_axes

_UNTOLD = "indices that nobody says are in order, or differ"


@handler("scatter")
def _scatter(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    """What is scattered, by a monoid: into its identity, and what was there besides."""
    values = (*op.signature.operands, *op.signature.results)
    types = {one.dtype for n, one in enumerate(values) if n != len(op.results)}
    if len(op.results) == 1 and len(types) > 1:
        raise Unreadable("a scatter that gives another type than it is given")
    monoid = monoid_of(op.signature.lambdas[0]) if len(views) == 3 else None
    (type_, *_) = op.signature.results
    literal = None if monoid is None else identity(monoid, type_.dtype)
    if machine.classes.source is None:
        believe(machine, op.signature, views[len(op.results)])
    if len(views) == 3 and monoid is None:
        with contextlib.suppress(Unreadable):
            return written_window(machine, op, views)
    if monoid is None or literal is None:
        return _into(machine, op, views)
    nothing = machine.number(literal, type_)
    made = _into(machine, op, (nothing, *views[1:]))
    if starts_reduction(monoid, machine.term(views[0])):
        return made
    labels = tuple(range(len(type_.shape)))
    attrs = ((), type_.dtype, type_.dtype)
    both = Equation(OPS[monoid], (labels, labels), (labels,), attrs, commutes=True)
    return machine.apply(both, (views[0], *made), (type_,))


def _into(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    names, index = told(op.signature), views[len(op.results)]
    right = machine.classes.source is None or is_told(
        machine, op.signature, index, names
    )
    if len(views) != 3:
        if not right:
            raise Unreadable(_UNTOLD)
        return machine.by_equation(op, views)
    base, index, update = views
    given = (base, plain_index(machine, index), update)
    found: Sequence[View] | Unreadable
    try:
        found = machine.by_equation(op, given) if right else Unreadable(_UNTOLD)
    except Unreadable as error:
        found = error
    known = not isinstance(found, Unreadable) and machine.classes.in_source(
        found[0].node
    )
    if known or machine.classes.source is None:
        if isinstance(found, Unreadable):
            raise found
        return found
    try:
        return [_in_tiles(machine, op, base, update)]
    except Unreadable:
        return _raised(found)


def _raised(found: Sequence[View] | Unreadable) -> Sequence[View]:
    if isinstance(found, Unreadable):
        raise found
    return found


def _in_tiles(machine: Machine, op: Op, base: View, update: View) -> View:
    """The tile of a scatter into the whole."""
    name = "scatter_dims_to_operand_dims"
    for column in columns(machine, op, "scatter_dimension_numbers", name):
        if _has_single_rows(op.signature, column.dim):
            for made in _of_column(machine, op, column, base, update):
                return made
    raise Unreadable("a scatter that is not split as its tiles are")


def _of_column(
    machine: Machine, op: Op, column: Column, base: View, update: View
) -> Iterator[View]:
    """The same, if devices shift one column of the indices."""
    signature, dim = op.signature, column.dim
    rows = signature.results[0].shape[dim]
    equation = machine.equation(signature)
    (local,) = machine.read((column.value,))
    parts, names = column.joined is not None, told(signature)
    for _, whole in leaves(machine, column.value, single=True, parts=parts):
        index = column.within(machine, whole)
        if not is_told(machine, signature, index, names):
            continue
        for count in _sizes(machine, index):
            at = _known_shifts(machine, local, whole, (count, rows), names)
            if at is None:
                at = _shifts(machine, local, whole, (count, rows), names)
            if at is None or not _has_rows(machine, base, dim, at, count):
                continue
            axes = [a for a in range(len(machine.sizes)) if at.shape[a] > 1]
            into = _widened(machine, base, dim, count, axes)
            shape = list(signature.results[0].shape)
            shape[dim] = count
            types = (tensor(tuple(shape), signature.results[0].dtype),)
            given = (into, plain_index(machine, index), update)
            (made,) = machine.apply(equation, given, types)
            if _has(machine, signature, made):
                yield _tile(machine, made, dim, at, (rows, count))


def _tile(
    machine: Machine, made: View, dim: int, at: Rows, sizes: tuple[int, int]
) -> View:
    """Of a whole so many rows on each device, from its first one on."""
    rows, count = sizes
    wide = [1] * (len(machine.sizes) + len(made.layout.local))
    wide[: len(machine.sizes)] = at.shape
    place = [1] * len(wide)
    place[len(machine.sizes) + dim] = rows
    first = at.reshape(wide) + np.arange(rows).reshape(place)
    return moved(machine, made, dim, np.where(first < count, first, GARBAGE), rows)


def _has(machine: Machine, signature: Signature, made: View) -> bool:
    """Whether the source has a scatter, or what parts of it on devices add up to."""
    if machine.classes.in_source(made.node):
        return True
    monoid = monoid_of(signature.lambdas[0])
    axes = [a for a in range(len(machine.sizes)) if depends_on(made.layout, a)]
    if monoid is None or not axes:
        return False
    shape = [size_of(items) for items in made.layout.local]
    try:
        whole = reduced_over_axes(machine, monoid, made, axes, shape)
    except Unreadable:
        return False
    return machine.classes.in_source(whole.node)


def _sizes(machine: Machine, index: View) -> list[int]:
    """How long dimensions are in the source that these are scattered into."""
    own = (index.node, plain_index(machine, index).node)
    terms = map(
        machine.classes.terms.__getitem__, machine.classes.nodes_of("stablehlo.scatter")
    )
    return sorted({n for t in terms if t.refs[1].node in own for n in t.new})


def _has_single_rows(signature: Signature, dim: int) -> bool:
    """Windows of several rows would reach over the edge of a tile, and be left out."""
    numbers = fields(signature.attrs["scatter_dimension_numbers"])
    gone = {
        *numbers.get("inserted_window_dims", ()),
        *numbers.get("input_batching_dims", ()),
    }
    rank = len(signature.operands[0].shape)
    window = [d for d in range(rank) if d not in gone]
    if dim not in window:
        return True
    place = numbers.get("update_window_dims", ())[window.index(dim)]
    return signature.operands[2].shape[place] == 1


def _has_rows(machine: Machine, base: View, dim: int, at: Rows, count: int) -> bool:
    """Whether each device has the rows that it scatters into; or equal ones."""
    of_class = along(base.layout, dim)
    if of_class is None:
        return True
    rows = rows_of(base.layout, of_class)
    place, axes = len(machine.sizes) + dim, len(machine.sizes)
    first = at.reshape(*at.shape, *(1 for _ in base.layout.local))
    wide = [1] * (axes + len(base.layout.local))
    wide[place] = rows.shape[place]
    wanted = first + np.arange(rows.shape[place]).reshape(wide)
    right = bool(((rows == wanted) | (wanted >= count)).all())
    return right and machine.term(base).dims[of_class] == count


def _shifts(
    machine: Machine,
    index: View,
    whole: View,
    sizes: tuple[int, int],
    names: Sequence[str],
) -> Rows | None:
    """By how much devices shift indices, if out of their tiles all are out of range.

    Of a dimension of so many rows, to a tile of so many. If it is said of them by these
    names, those that differ still do, or all are in their order.
    """
    (count, rows), leaf = sizes, whole.node
    have = leaf_rows(machine.classes, index, leaf)
    wanted_rows = leaf_rows(machine.classes, whole, leaf)
    if any((a != b).any() for a, b in zip(have, wanted_rows, strict=True)):
        return None
    values = domain(count, machine, leaf, (index,), rows)
    if UNIQUE in names:  # one that others are far from may be brought to them
        wide = rows + 4 * reach(machine.classes, index.node, leaf).edge
        values = domain(count, machine, leaf, (index,), wide)
    place = on_devices(machine, index, leaf, values).astype(np.int64)
    spread = values.reshape(-1, *(1 for _ in machine.sizes))
    if not _keeps(names, values, place):
        return None
    inside = (place >= 0) & (place < rows)
    offset = np.where(inside, spread - place, -1).max(0)
    wanted = spread - offset
    expected = (wanted >= 0) & (wanted < rows) & (spread >= 0) & (spread < count)
    beyond = inside & (spread >= count)  # rows that are not there
    if (offset < 0).any() or ((inside & ~beyond) != expected).any():
        return None
    if (expected & (place != wanted)).any():
        return None
    return _narrow(offset)


def _keeps(names: Sequence[str], index: np.ndarray, place: np.ndarray) -> bool:
    """Whether on each device places are in order, or differ, as their indices do."""
    index = index.reshape(-1, *(1,) * (place.ndim - index.ndim), *index.shape[1:])
    index = np.broadcast_to(index, place.shape)
    if SORTED in names and not rises(index, place):
        return False
    order = np.argsort(place, axis=0, kind="stable")
    equal = np.diff(np.take_along_axis(place, order, 0), axis=0) == 0
    alike = np.diff(np.take_along_axis(index, order, 0), axis=0) == 0
    return UNIQUE not in names or bool((alike | ~equal).all())


def _known_shifts(
    machine: Machine,
    index: View,
    whole: View,
    sizes: tuple[int, int],
    names: Sequence[str],
) -> Rows | None:
    """The same of indices that are known, place by place."""
    count, rows = sizes
    found = [numbers(machine.classes, view) for view in (index, whole)]
    if found[0] is None or found[1] is None:
        return None
    shape = np.broadcast_shapes(*(x.shape for x in found if x is not None))
    shape = (*machine.sizes, *shape[len(machine.sizes) :])
    place, spread = (
        np.broadcast_to(x, shape).astype(np.int64).reshape(*machine.sizes, -1)
        for x in found
        if x is not None
    )
    if not _keeps(names, np.moveaxis(spread, -1, 0), np.moveaxis(place, -1, 0)):
        return None
    inside, apart = (place >= 0) & (place < rows), spread - place
    first = np.where(inside.any(-1), np.argmax(inside, -1), 0)  # or any, if all agree
    offset = np.take_along_axis(apart, first[..., None], -1)
    wanted = spread - offset
    expected = (wanted >= 0) & (wanted < rows) & (spread >= 0) & (spread < count)
    right = np.where(inside, (place == wanted) & (expected | (spread >= count)), True)
    right &= inside | ~expected
    agree = inside.any(-1) | (apart == offset).all(-1)
    if not right.all() or not agree.all() or (offset < 0).any():
        return None
    return _narrow(offset[..., 0])


def _narrow(offset: Rows) -> Rows:
    """Of size one along axes that nothing depends on."""
    for axis in range(offset.ndim):
        first = offset.take([0], axis)
        if (offset == first).all():
            offset = first
    return np.asarray(offset)


def _widened(
    machine: Machine, base: View, dim: int, count: int, axes: Sequence[int]
) -> View:
    """What is scattered into, whole along one dimension."""
    of_class = along(base.layout, dim)
    if of_class is not None:
        return whole_view(machine, base, dim, of_class, axes, np.arange(count))
    local = list(base.layout.local)
    local[dim] = repeated(count)
    return View(base.node, base.layout.with_local(local))
