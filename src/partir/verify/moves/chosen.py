"""Gradients of pools, row by row.

Every window hands what it is given to the element that it chooses, and an element gets
the sum of what windows hand to it. Which element that is depends on what the window
shows, in its order. So along each dimension that windows run along, a row of the result
is a bag: of the windows that show it, each with the rows that it shows, the place of
this one among them, and the row of what the window is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from partir.ir.core import Signature
from partir.verify.classes.classes import Classes
from partir.verify.classes.monoids import monoid_of
from partir.verify.classes.repetition import counts_nothing
from partir.verify.classes.rows import BAG, DROPPED, GARBAGE, Rows, RowTable, filled
from partir.verify.classes.terms import (
    FREE,
    ClassTerm,
    Dims,
    Ref,
    Use,
    Variable,
    numbered,
)
from partir.verify.layouts.align import Alignment, Equation
from partir.verify.layouts.components import components, show, tied
from partir.verify.layouts.layout import DigitLayout, Unreadable, View, repeated
from partir.verify.layouts.merging import along_one
from partir.verify.layouts.spread import along, narrowed, rebuilt, rows_of, shape_of
from partir.verify.layouts.unjoined import without_dim
from partir.verify.machine.machine import Machine
from partir.verify.moves.windows import WindowFacts, reduce_windows


class _Moved(NamedTuple):
    """A dimension that windows run along, and those of the classes that it counts."""

    dim: int
    window: WindowFacts
    dims: tuple[int, int]  # of the value's class, and of what is given

    @property
    def variable(self) -> Variable:
        """What stands for its bags in the term."""
        return ("windows", self.dim)


def pool_gradient(
    machine: Machine, signature: Signature, views: Sequence[View]
) -> View:
    """A select_and_scatter without padding, by a monoid, from nothing."""
    monoid = _monoid(machine, signature, views[2])
    windows = [*enumerate(reduce_windows(signature))]
    if any(window.low or window.high for _, window in windows):
        raise Unreadable("windows over padding that has no numbers")
    value, given = views[:2]
    moved = []
    for dim, window in windows:
        if window != WindowFacts(1):
            value, given = (along_one(machine.classes, v, dim) for v in (value, given))
    for dim, window in windows:
        if window != WindowFacts(1):
            moved.append(_Moved(dim, window, (_own(value, dim), _own(given, dim))))
    bags = {
        one.variable: _bags(machine.classes, monoid, one, value, given) for one in moved
    }
    return _made(machine, signature, monoid, moved, (value, given), bags)


def _monoid(machine: Machine, signature: Signature, start: View) -> str:
    """How what is handed to one element adds up, if nothing was there before."""
    scatter, dtype = signature.lambdas[1], signature.results[0].dtype
    monoid = monoid_of(scatter)
    if monoid is None or any(type_.dtype != dtype for type_ in scatter.types):
        raise Unreadable("what windows choose, put together in an unknown way")
    if not counts_nothing(machine.classes, monoid, start.node):
        raise Unreadable("what windows choose, added to something")
    return monoid


def _own(view: View, dim: int) -> int:
    """The dimension of the class that a local one counts, and no other counts."""
    found = along(view.layout, dim)
    if found is None:
        raise Unreadable("windows over equal rows")
    rows, first = rows_of(view.layout, found), len(view.layout.axes)
    if rows.size != math.prod(rows.shape[:first]) * rows.shape[first + dim]:
        raise Unreadable("windows over a part of a dimension")
    return found


def _bags(
    classes: Classes, monoid: str, moved: _Moved, value: View, given: View
) -> Rows:
    """The row of the result at each place of each device, along one dimension."""
    size, stride = moved.window.size, moved.window.stride
    place = len(value.layout.axes) + moved.dim
    shown = np.moveaxis(rows_of(value.layout, moved.dims[0]), place, -1)
    handed = np.moveaxis(rows_of(given.layout, moved.dims[1]), place, -1)
    axes = np.broadcast_shapes(shown.shape[:-1], handed.shape[:-1])
    shown, handed = (
        np.broadcast_to(x, (*axes, x.shape[-1])).reshape(-1, x.shape[-1])
        for x in (shown, handed)
    )
    first = np.arange(handed.shape[-1]) * stride
    if first.size and int(first[-1]) + size > shown.shape[-1]:
        raise Unreadable("windows that reach over an edge")
    inside = shown[:, first[:, None] + np.arange(size)]
    codes = classes.rows.windows(handed, inside)
    for code in np.unique(handed[handed < GARBAGE]):
        if counts_nothing(classes, monoid, filled(int(code))):
            codes[handed == code] = DROPPED
    members = np.full((*shown.shape, size), DROPPED, np.int64)
    for number in range(size):
        members[:, first + number, number] = codes[..., number]
    bags = classes.rows.bags(members).reshape(*axes, -1)
    return narrowed(np.moveaxis(bags, -1, place))


def _made(
    machine: Machine,
    signature: Signature,
    monoid: str,
    moved: Sequence[_Moved],
    views: tuple[View, View],
    bags: dict[Variable, Rows],
) -> View:
    """The class of the result, with a variable for each dimension of windows."""
    classes, shape = machine.classes, signature.results[0].shape
    labels = tuple(range(len(shape)))
    layouts = [
        _without(view.layout, [(one.dim, one.dims[place]) for one in moved], shape)
        for view, place in zip(views, (0, 1), strict=True)
    ]
    aligned = Alignment(Equation(signature.kind, (labels,) * 2, (labels,)), layouts)
    parts = components(layouts, aligned.refs, aligned.use)
    refs, use = tied(aligned.refs, aligned.use, parts, [part.size for part in parts])
    refs = [
        _with(
            dims,
            len(machine.term(view).dims),
            {one.dims[n]: one.variable for one in moved},
        )
        for dims, view, n in zip(refs, views, (0, 1), strict=True)
    ]
    sizes = {**use.sizes, **dict.fromkeys(bags, BAG)}
    made = numbered(refs, Use(sizes, {**use.roles, **dict.fromkeys(bags, FREE)}))
    order = tuple(made.places[one.variable][0] for one in moved)
    term = ClassTerm(
        signature.kind,
        (signature.lambdas[0], monoid, order),
        tuple(map(Ref, [view.node for view in views], made.dims)),
        made.sizes,
        made.free,
        dtype=signature.results[0].dtype,
    )
    where, tables = dict(made.where()), dict[int, RowTable]()
    for part in parts:
        rows = classes.rows.tuples(part.columns[:, 0])
        show(part, rows, part.size, aligned.use, where, tables)
    layout, _ = aligned.result(0, shape, where, 0, tables)
    changed = {where[variable][0]: rows for variable, rows in bags.items()}
    of_class = dict.fromkeys(changed, BAG)
    layout = rebuilt(layout, changed, shape_of(layout), of_class)
    return View(classes.of(term), layout)


def _without(
    layout: DigitLayout, moved: Sequence[tuple[int, int]], shape: Sequence[int]
) -> DigitLayout:
    """A layout without some dimensions, repeated along them at the result's sizes."""
    for dim, of_class in moved:
        layout = without_dim(layout, of_class, dim)
        local = list(layout.local)
        local[dim] = repeated(shape[dim])
        layout = layout.with_local(local)
    return layout


def _with(dims: Dims, rank: int, names: dict[int, Variable]) -> Dims:
    """A reference to all dimensions of a class, some of which are variables' own."""
    full = (*dims, *((),) * (rank - len(dims)))
    return tuple((names[n],) if n in names else held for n, held in enumerate(full))
