"""Reductions over local dimensions and over mesh axes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from partir.ir.attributes import ints
from partir.ir.core import Op, Signature
from partir.ir.types import TensorType, tensor
from partir.verify.classes.monoids import OPS, keeps_type, monoid_of
from partir.verify.classes.repetition import repeated_often, starts_reduction
from partir.verify.classes.rows import FIRST_FILLED, FIRST_MADE, RowTable
from partir.verify.identities.kept_rows import apart, made_ones, with_numbers
from partir.verify.identities.reduction import Reduction
from partir.verify.identities.sums import BINDING, LOOKED_INTO, REDUCE, reduce
from partir.verify.joins.joins import JoinedPiece, joined, moved
from partir.verify.layouts.align import Equation
from partir.verify.layouts.components import components, show, tied
from partir.verify.layouts.layout import Unreadable, View, repeated, size_of
from partir.verify.layouts.pins import settled
from partir.verify.layouts.spread import dims_held, rows_of, shape_of
from partir.verify.layouts.unjoined import JOINED, split
from partir.verify.machine.machine import Machine, handler
from partir.verify.reductions.pairs import reduced_again


def reduced(
    machine: Machine,
    monoid: str,
    view: View,
    kept: tuple[int, ...],
    shape: Sequence[int],
    axes: Sequence[int] = (),
) -> View:
    """A value reduced over local dimensions that are not kept, and over axes.

    Where a reduction or product binds one more variable, it does so in all classes of
    its form that are laid out alike.
    """
    classes = machine.classes
    number, *nodes = classes.terms.keys[view.node]
    kind = classes.terms.forms[number].kind
    if kind not in BINDING or len(nodes) > 2 or view.layout.tables:
        return _worked_out(machine, monoid, view, kept, shape, axes)
    rises = nodes == sorted(nodes)
    alike = (monoid, view.layout, kept, tuple(axes), number, rises)
    found = machine.bound.get(alike)
    if found is not None:
        node = classes.found((found[0], *sorted(nodes)))
        if node is not None:
            return View(node, found[1])
    made = _worked_out(machine, monoid, view, kept, shape, axes)
    form, *after = classes.terms.keys[made.node]
    same = classes.terms.forms[form].kind == kind and after == sorted(nodes)
    if same and classes.in_source(made.node) and not made.layout.tables:
        machine.bound[alike] = (form, made.layout)
    return made


def _worked_out(
    machine: Machine,
    monoid: str,
    view: View,
    kept: tuple[int, ...],
    shape: Sequence[int],
    axes: Sequence[int],
) -> View:
    rank = len(view.layout.local)
    aligned = machine.aligned([view.layout], rank, kept, frozenset(axes))
    classes = machine.classes
    parts = components([view.layout], aligned.refs, aligned.use)
    own = [p.sizes[0] if len(p.mentions) == 1 else p.size for p in parts]
    (dims,), use = tied(aligned.refs, aligned.use, parts, own)
    sizes = {v: use.sizes[v] for dim in dims for v in dim}
    rows = {part.variable: part.rows for part in parts if part.bound}
    bound = aligned.bound | rows.keys()
    shown = {p.variable: apart(classes, p.columns[:, 0]) for p in parts if not p.bound}
    odd = made_ones({v: held for v, (held, _) in shown.items()})
    several = {p.variable for p in parts if len(p.mentions) > 1}
    moves = bool(axes) and not several & odd.keys()
    what = Reduction(monoid, view.node, dims, sizes, bound, moves, rows, odd)
    made = reduce(classes, what)
    found = repeated_often(classes, made, monoid, aligned.repeats())
    if found is None:
        raise Unreadable(f"a {monoid} of equal values")
    count = math.prod(aligned.use.sizes[v] for v in aligned.bound)
    left = dict(found.rows)
    for variable, (held, codes) in shown.items():
        held = left.get(variable, held)
        left[variable] = with_numbers(classes, monoid, held, codes, count)
    where, tables = dict(found.where), dict[int, RowTable]()
    of_class = classes.terms[found.node].dims
    for part in parts:
        if part.variable in left:
            held = left.pop(part.variable)
            size = of_class[where[part.variable][0]]
            show(part, held, size, aligned.use, where, tables)
    for variable, held in left.items():  # no place tells these apart
        dim = where[variable][0]
        tables[dim] = RowTable(held, of_class[dim])
    layout, _ = aligned.result(0, shape, where, 0, tables)
    return settled(classes, split(classes, View(found.node, layout)))


@lru_cache(maxsize=1024)
def _what(signature: Signature) -> tuple[str | None, tuple[int, ...]]:
    """How a reduction of one value reduces, and the dimensions that it keeps."""
    along = ints(signature.attrs["dimensions"])
    rank = len(signature.operands[0].shape)
    kept = tuple(dim for dim in range(rank) if dim not in along)
    alone = len(signature.operands) == 2 and keeps_type(signature)
    return monoid_of(signature.lambdas[0]) if alone else None, kept


@handler("reduce")
def _reduce(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    signature = op.signature
    if 0 in signature.operands[0].shape:  # of nothing: what it starts from
        return [
            View(start.node, start.layout.with_local(map(repeated, type_.shape)))
            for start, type_ in zip(
                views[len(views) // 2 :], signature.results, strict=True
            )
        ]
    monoid, kept = _what(signature)
    if monoid is None:
        return reduced_again(machine, op, views)
    (type_,) = signature.results
    made = _on_device(machine, signature, monoid, views[0], kept)
    if starts_reduction(monoid, machine.term(views[1])):
        return [made]
    return [with_start(machine, monoid, made, views[1], type_)]


def _on_device(
    machine: Machine,
    signature: Signature,
    monoid: str,
    view: View,
    kept: tuple[int, ...],
) -> View:
    """A value reduced over local dimensions.

    What is around a class that reductions don't look into has one form, whatever class
    it is: found once, it is applied to others that are laid out alike.
    """
    (type_,) = signature.results
    form = machine.classes.terms.form(view.node)
    alike = None
    if not view.layout.tables and form.kind not in LOOKED_INTO:
        alike = (signature, view.layout, form.dtype)
    found = machine.reductions.get(alike)
    if found is not None:
        return View(machine.classes.applied((found[0], view.node)), found[1])
    made = reduced(machine, monoid, view, kept, type_.shape)
    if alike is not None:
        number, *nodes = machine.classes.terms.keys[made.node]
        if nodes == [view.node] and machine.classes.terms.forms[number].kind == REDUCE:
            machine.reductions[alike] = (number, made.layout)
    return made


def with_start(
    machine: Machine, monoid: str, made: View, start: View, type_: TensorType
) -> View:
    """An initial value that counts: one more of what is reduced."""
    labels = tuple(range(len(type_.shape)))
    attrs = ((), type_.dtype, type_.dtype)
    equation = Equation(OPS[monoid], (labels, ()), (labels,), attrs, commutes=True)
    (found,) = machine.apply(
        equation, (made, start), (tensor(type_.shape, type_.dtype),)
    )
    return found


def reduced_over_axes(
    machine: Machine, monoid: str, view: View, axes: Sequence[int], shape: Sequence[int]
) -> View:
    """What all devices that differ in `axes` hold, reduced."""
    kept = tuple(range(len(shape)))
    if machine.term(view).kind == JOINED:
        with contextlib.suppress(Unreadable):
            return _piece_by_piece(machine, monoid, view, axes)
    return reduced(machine, monoid, view, kept, shape, axes)


def _piece_by_piece(
    machine: Machine, monoid: str, view: View, axes: Sequence[int]
) -> View:
    """Values side by side, each reduced by itself: a bucket of them."""
    held = [d for d, items in enumerate(view.layout.local) if 0 in dims_held(items)]
    rows, made = rows_of(view.layout, 0), machine.classes.rows
    if len(held) != 1 or rows.size != rows.shape[len(machine.sizes) + held[0]]:
        raise Unreadable("values side by side, on each device others")
    (dim,) = held
    codes = [int(code) for code in rows.reshape(-1)]
    if min(codes) < FIRST_MADE or max(codes) >= FIRST_FILLED:
        raise Unreadable("numbers between values")
    keys = [made.class_of(code) for code in codes]
    distinct = sorted({*keys})
    if len(distinct) == 1:
        raise Unreadable("one value alone")
    which = np.array([distinct.index(key) for key in keys])
    wide = [1] * rows.ndim
    wide[len(machine.sizes) + dim] = -1
    pieces = []
    for number in range(len(distinct)):
        (own,) = np.nonzero(which == number)
        part = moved(machine, view, dim, own.reshape(wide), own.size)
        shape = [size_of(items) for items in part.layout.local]
        part = reduced_over_axes(machine, monoid, part, axes, shape)
        place = np.cumsum(which == number) - 1
        pieces.append(JoinedPiece(part, place.reshape(wide)))
    return joined(machine, pieces, which.reshape(wide), dim, shape_of(view.layout))
