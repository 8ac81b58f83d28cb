"""Ops that put rows elsewhere, by numbers that are known: slices, pads, concatenations.

Each is tried on rows first. What has no rows of its own (dimensions cut together with
others, places that an argument decides) is left to the op's equation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from partir.ir.attributes import ROLL, integer, ints
from partir.ir.core import Op
from partir.verify.classes.rows import Rows
from partir.verify.equations.elementwise import is_elementwise
from partir.verify.equations.indexing import kept_starts
from partir.verify.joins.joins import JoinedPiece, is_number, joined, moved
from partir.verify.layouts.concrete import computed, numbers
from partir.verify.layouts.layout import Unreadable, View, size_of
from partir.verify.layouts.spread import (
    along,
    dims_held,
    has_garbage,
    narrowed,
    shape_of,
    tiled_along,
)
from partir.verify.layouts.unjoined import handed_on
from partir.verify.lookups.lookups import masked_lookup
from partir.verify.lookups.patches import patched
from partir.verify.lookups.updates import masked_row
from partir.verify.machine.counting import choose, is_one_truth
from partir.verify.machine.indices import plain_start
from partir.verify.machine.machine import Handler, Machine, handler
from partir.verify.machine.unread import unread
from partir.verify.moves.slicing import dynamic_slice
from partir.verify.reductions.ordering import ordered

Attempt = Callable[[Machine, Op, tuple[View, ...]], View]


def _rows_first(
    name: str, otherwise: Handler | None = None
) -> Callable[[Attempt], Attempt]:
    """Register how an op moves rows; where it can't, how else it is run."""

    def keep(attempt: Attempt) -> Attempt:
        @handler(name)
        def run(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
            else_run = otherwise or Machine.by_equation
            try:
                found = attempt(machine, op, views)
                return _as_the_source(machine, op, views, found, else_run)
            except Unreadable as error:
                if otherwise is not None:
                    return otherwise(machine, op, views)
                if name == ROLL:
                    raise
                try:
                    return machine.by_equation(op, views)
                except Unreadable:
                    raise error from None

        return attempt

    return keep


def _as_the_source(
    machine: Machine,
    op: Op,
    views: tuple[View, ...],
    found: View,
    else_run: Handler,
) -> Sequence[View]:
    """What an op moves; if some of that was lost, as the source has it, if it does."""
    classes = machine.classes
    lost = has_garbage(found.layout) and not any(has_garbage(v.layout) for v in views)
    if lost and classes.source is not None:
        with contextlib.suppress(Unreadable):
            whole = else_run(machine, op, views)
            if all(classes.in_source(view.node) for view in whole):
                return whole
    return [found]


def _counted(view: View, dim: int, numbers_: np.ndarray) -> Rows:
    """Numbers along one local dimension, as rows over axes and dimensions."""
    shape = [1] * (len(view.layout.axes) + len(view.layout.local))
    shape[len(view.layout.axes) + dim] = numbers_.size
    return numbers_.reshape(shape)


@_rows_first("slice")
def _slice(machine: Machine, op: Op, views: tuple[View, ...]) -> View:
    (view,) = views
    attrs = op.signature.attrs
    names = ("start_indices", "limit_indices", "strides")
    for dim, edges in enumerate(zip(*(ints(attrs[n]) for n in names), strict=True)):
        if edges != (0, size_of(view.layout.local[dim]), 1):
            at = np.arange(*edges, dtype=np.int64)
            view = moved(machine, view, dim, _counted(view, dim, at), at.size)
    return view


@_rows_first("reverse")
def _reverse(machine: Machine, op: Op, views: tuple[View, ...]) -> View:
    (view,) = views
    for dim in ints(op.signature.attrs["dimensions"]):
        size = size_of(view.layout.local[dim])
        at = np.arange(size - 1, -1, -1, dtype=np.int64)
        view = moved(machine, view, dim, _counted(view, dim, at), size)
    return view


@_rows_first(ROLL)
def _roll(machine: Machine, op: Op, views: tuple[View, ...]) -> View:
    """Rows from a place on, going on with the first behind the last."""
    (view,), attrs = views, op.signature.attrs
    dim, start = integer(attrs["dimension"]), integer(attrs["start"])
    size = op.signature.results[0].shape[dim]
    at = (start + np.arange(size)) % size_of(view.layout.local[dim])
    return moved(machine, view, dim, _counted(view, dim, at), size)


@_rows_first("concatenate")
def _concatenate(machine: Machine, op: Op, views: tuple[View, ...]) -> View:
    dim = integer(op.signature.attrs["dimension"])
    sizes = [size_of(view.layout.local[dim]) for view in views]
    places = np.arange(sum(sizes))
    which = np.repeat(np.arange(len(views)), sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    pieces = [
        JoinedPiece(view, _counted(view, dim, places - start))
        for view, start in zip(views, starts, strict=True)
    ]
    shape = list(shape_of(views[0].layout))
    shape[len(views[0].layout.axes) + dim] = places.size
    return joined(machine, pieces, _counted(views[0], dim, which), dim, shape)


@_rows_first("pad")
def _pad(machine: Machine, op: Op, views: tuple[View, ...]) -> View:
    view, other = views
    attrs = op.signature.attrs
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    for dim, edges in enumerate(zip(*(ints(attrs[n]) for n in names), strict=True)):
        if any(edges):
            size = op.signature.results[0].shape[dim]
            low, _, between = edges
            step = between + 1
            place = np.arange(size) - low
            before = size_of(view.layout.local[dim])
            inside = (place % step == 0) & (place >= 0) & (place < before * step)
            at = np.where(inside, place // step, 0)
            view = _within(machine, view, other, dim, at, inside, size)
    return view


def _within(
    machine: Machine,
    view: View,
    other: View,
    dim: int,
    at: np.ndarray,
    inside: np.ndarray,
    size: int,
) -> View:
    """Rows of a value, and one number at all other places."""
    if not is_number(machine, other):
        raise Unreadable("padding with what is no known number")
    shape = list(shape_of(view.layout))
    shape[len(view.layout.axes) + dim] = size
    pieces = [
        JoinedPiece(view, _counted(view, dim, at)),
        JoinedPiece(_like(view, other), at, True),
    ]
    which = _counted(view, dim, np.where(inside, 0, 1))
    return joined(machine, pieces, which, dim, shape)


def _like(view: View, number: View) -> View:
    """A number in the rank of a value."""
    local = tuple(() for _ in view.layout.local)
    return View(number.node, number.layout.with_local(local))


def _starts(machine: Machine, views: Sequence[View], rank: int) -> list[Rows | None]:
    """Where a slice starts in each dimension, over axes; None where it is not known."""
    found = []
    for view in views:
        known = numbers(machine.classes, view)
        if known is not None:
            if known.dtype == np.uint64:  # the largest are no negative numbers
                known = np.minimum(known, np.uint64(np.iinfo(np.int64).max))
            known = known.astype(np.int64).reshape(known.shape + (1,) * rank)
        found.append(known)
    return found


def _otherwise_slice(
    machine: Machine, op: Op, views: tuple[View, ...]
) -> Sequence[View]:
    try:
        return dynamic_slice(machine, op, views)
    except Unreadable:
        if machine.classes.source is None or not views[0].layout.tables:
            raise
        return [unread(machine, op)]


@_rows_first("dynamic_slice", _otherwise_slice)
def _dynamic_slice(machine: Machine, op: Op, views: tuple[View, ...]) -> View:
    """Static where the start is a number, of a device or of all."""
    view, *starts = views
    sizes = op.signature.results[0].shape
    for dim, start in enumerate(_starts(machine, starts, len(sizes))):
        whole, size = size_of(view.layout.local[dim]), sizes[dim]
        if size == whole:
            continue
        if start is None:
            if along(view.layout, dim) is not None:
                raise Unreadable("a slice at a place that is not known")
            start = np.zeros((1,) * len(shape_of(view.layout)), np.int64)
        first = np.clip(start, 0, whole - size)
        at = first + _counted(view, dim, np.arange(size))
        view = moved(machine, view, dim, at, size)
    return view


def _otherwise_update(
    machine: Machine, op: Op, views: tuple[View, ...]
) -> Sequence[View]:
    """Starts of dimensions that are replaced whole do not count."""
    whole, part = (type_.shape for type_ in op.signature.operands[:2])
    starts = [
        plain_start(machine, views[n], whole[n - 2] - part[n - 2])
        for n in kept_starts(op.signature)[2:]
    ]
    found: Sequence[View] | Unreadable
    try:
        found = machine.by_equation(op, (*views[:2], *starts))
    except Unreadable as error:
        found = error
    classes = machine.classes
    if isinstance(found, Unreadable) or not classes.in_source(found[0].node):
        with contextlib.suppress(Unreadable):
            return [patched(machine, op)]
    if isinstance(found, Unreadable):
        raise found
    return found


@_rows_first("dynamic_update_slice", _otherwise_update)
def _update(machine: Machine, op: Op, views: tuple[View, ...]) -> View:
    base, part, *starts = views
    whole, size = (t.shape for t in op.signature.operands[:2])
    cut = [dim for dim in range(len(whole)) if whole[dim] != size[dim]]
    if not cut:
        return part
    known = _starts(machine, starts, len(whole))
    if any(known[dim] is None for dim in cut):
        raise Unreadable("a slice at a place that is not known")
    if len(cut) > 1 and not is_number(machine, base):
        raise Unreadable("a part in several dimensions at once")
    for dim in cut:
        start = known[dim]
        assert start is not None
        first = np.clip(start, 0, whole[dim] - size[dim])
        place = _counted(part, dim, np.arange(whole[dim]))
        at = place - first
        which = np.where((at >= 0) & (at < size[dim]), 1, 0)
        shape = list(shape_of(part.layout))
        shape[len(part.layout.axes) + dim] = whole[dim]
        pieces = [JoinedPiece(base, place), JoinedPiece(part, at)]
        if is_number(machine, base):
            pieces[0] = JoinedPiece(_like(part, base), place)
        part = joined(machine, pieces, which, dim, shape)
    return part


@handler("select")
def _select(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    """A mask that counts chooses rows; what the source chooses so, is left so."""
    found: Sequence[View] | Unreadable
    try:
        found = ordered(machine, _chosen(machine, op, views))
    except Unreadable as error:
        found = error
    if machine.classes.source is None and not isinstance(found, Unreadable):
        return found
    if not isinstance(found, Unreadable) and machine.classes.in_source(found[0].node):
        return found
    known = computed(machine.classes, machine.sizes, op, views)
    if known is not None:
        return known
    try:
        with contextlib.suppress(Unreadable):
            return [masked_lookup(machine, views, op.operands[1])]
        mask = numbers(machine.classes, views[0])
        if mask is None:
            return [masked_row(machine, views, op.operands[1])]
        return [by_mask(machine, mask, *views[1:])]
    except Unreadable:
        if isinstance(found, Unreadable):
            raise found from None
        return found


def _chosen(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """What is not known of one of them is not known of the result, by any mask.

    A mask of one truth takes one of them as it is, and nothing of the other. Behind
    what is handed on none counts as such: the other may have what is not known now.
    """
    on_devices = machine.classes.source is not None and is_elementwise(op.signature)
    tables = any(view.layout.tables for view in views)
    if not on_devices or not tables or is_one_truth(machine, views[0]):
        return choose(machine, op, views)
    return machine.by_equation(op, tuple(handed_on(machine.classes, views)))


def by_mask(machine: Machine, chosen: Rows | None, yes: View, no: View) -> View:
    """One value or another, by truths over axes and local dimensions."""
    shape = shape_of(yes.layout)
    axes = len(yes.layout.axes)
    if chosen is None:
        raise Unreadable("a choice that is not known")
    chosen = narrowed(chosen.reshape(chosen.shape + (1,) * (len(shape) - chosen.ndim)))
    wide = [n for n in range(axes, len(shape)) if chosen.shape[n] > 1]
    if len(wide) > 1:
        raise Unreadable("a choice along several dimensions at once")
    dim = wide[0] - axes if wide else None
    if dim is None and len(shape) > axes:
        values = [v for v in (yes, no) if not is_number(machine, v)]
        alike = len({v.node for v in values}) <= 1
        dim = None if alike else _tiled_or_widest(values, chosen)
    at = np.zeros((1,) * len(shape), np.int64)
    if dim is not None:
        at = _counted(yes, dim, np.arange(shape[axes + dim]))
    which = np.where(chosen, 0, 1)
    single = [is_number(machine, view) for view in (yes, no)]
    pieces = [
        JoinedPiece(view, at, one and not all(single))
        for view, one in zip((yes, no), single, strict=True)
    ]
    return joined(machine, pieces, which, dim, shape)


def _tiled_or_widest(values: Sequence[View], chosen: Rows) -> int:
    """The local dimension that is tiled by the axes that a choice depends on.

    Of tiles of one row it is one that counts nothing.
    """
    axes = [a for a in range(len(values[0].layout.axes)) if chosen.shape[a] > 1]
    for view in values:
        held = {d for a in axes for d in dims_held(view.layout.axes[a])}
        for dim, items in enumerate(view.layout.local):
            if dims_held(items) & held:
                return dim
    local = values[0].layout.local
    for dim in range(len(local)):
        if any(not v.layout.local[dim] and tiled_along(v.layout, dim) for v in values):
            return dim
    sizes = [size_of(held) for held in local]
    return sizes.index(max(sizes))
