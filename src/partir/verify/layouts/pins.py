"""`at`: a class at one row of some of its dimensions, as a class without them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from partir.verify.classes.classes import Classes, Made
from partir.verify.classes.repetition import OFTEN
from partir.verify.classes.rows import GARBAGE, RowTable, filled
from partir.verify.classes.terms import ClassTerm, Ref, Variable
from partir.verify.layouts.concrete import KNOWN, number_class, number_of_row
from partir.verify.layouts.layout import (
    REPEATED,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    repeated,
    size_of,
)
from partir.verify.layouts.picks import PICKED, pick
from partir.verify.layouts.spread import dims_held, has_garbage

AT = "at"


def at(
    classes: Classes, node: int, rows: Mapping[int, int]
) -> tuple[int, dict[int, int]]:
    """The class at these rows; and where its other dimensions are now."""
    if classes.terms[node].kind == PICKED:
        picks = dict(classes.terms[node].attrs)
        if not picks.keys() & rows.keys():  # other dimensions: these first
            inner, left_over = at(classes, classes.terms[node].refs[0].node, rows)
            for dim, number in picks.items():
                inner = pick(classes, inner, left_over[dim], number)
            return inner, left_over
    term, pinned, base = classes.terms[node], dict(rows), node
    if term.kind in OFTEN and term.refs[0].dims == tuple((v,) for v in term.free):
        inner, left_over = at(classes, term.refs[0].node, rows)
        return OFTEN[term.kind](classes, inner, int(str(term.attrs))), left_over
    if term.kind == AT:
        (ref,) = term.refs
        places = [dim for dim, held in enumerate(ref.dims) if held]
        pinned = {places[dim]: row for dim, row in rows.items()} | dict(term.attrs)
        base = ref.node
    if classes.terms[base].kind == KNOWN:
        (row,) = pinned.values()
        return number_class(classes, number_of_row(row), term.dtype), {}
    sizes = classes.terms[base].dims
    left = [dim for dim in range(len(sizes)) if dim not in pinned]
    dims = tuple((left.index(d),) if d in left else () for d in range(len(sizes)))
    made = ClassTerm(
        AT,
        tuple(sorted(pinned.items())),
        (Ref(base, dims),),
        tuple(sizes[d] for d in left),
        tuple(range(len(left))),
        dtype=term.dtype,
    )
    kept = [dim for dim in range(len(term.dims)) if dim not in rows]
    return classes.of(made), {dim: number for number, dim in enumerate(kept)}


def settled(classes: Classes, view: View) -> View:
    """A view without dimensions that no place tells rows of apart."""
    if not view.layout.tables:
        return view
    held: set[int] = set()
    for items in (*view.layout.local, *view.layout.axes):
        held |= dims_held(items)
    rows = {d: int(t.rows[0]) for d, t in view.layout.tables if d not in held}
    if not rows:
        return view
    if GARBAGE in rows.values():
        raise Unreadable("a value of which nothing is known")
    numbers = [row for row in rows.values() if row < GARBAGE]
    if numbers and has_garbage(view.layout):  # which of them came later is not told
        return view
    if numbers:
        return View(filled(numbers[0]), _repeated(view.layout))
    node, places = at(classes, view.node, rows)

    def renamed(items: Digits) -> Digits:
        return tuple(
            d if d.dim == REPEATED else d._replace(dim=places[d.dim]) for d in items
        )

    tables = tuple((places[d], t) for d, t in view.layout.tables if d not in rows)
    local, axes = view.layout.local, view.layout.axes
    return View(
        node, DigitLayout(tuple(map(renamed, local)), tuple(map(renamed, axes)), tables)
    )


def unsettled(classes: Classes, view: View) -> View:
    """A view of a class at some rows, as one of the class itself."""
    term = classes.terms[view.node]
    if term.kind != AT:
        return view
    (ref,) = term.refs
    places = [dim for dim, held in enumerate(ref.dims) if held]

    def renamed(items: Digits) -> Digits:
        return tuple(
            d if d.dim == REPEATED else d._replace(dim=places[d.dim]) for d in items
        )

    sizes = classes.terms[ref.node].dims
    tables = {places[d]: table for d, table in view.layout.tables}
    for dim, row in term.attrs:
        tables[dim] = RowTable(np.array([row]), sizes[dim])
    local, axes = view.layout.local, view.layout.axes
    return View(
        ref.node,
        DigitLayout(
            tuple(map(renamed, local)),
            tuple(map(renamed, axes)),
            tuple((d, tables[d]) for d in sorted(tables)),
        ),
    )


def _repeated(layout: DigitLayout) -> DigitLayout:
    local = tuple(repeated(size_of(items)) for items in layout.local)
    return DigitLayout(local, tuple(repeated(size_of(items)) for items in layout.axes))


def settled_rows(classes: Classes, made: Made, alone: set[Variable]) -> Made:
    """A class without the variables that stand for one row each."""
    if not alone:
        return made
    rows = {made.where[v][0]: int(made.rows[v].reshape(-1)[0]) for v in alone}
    filled_ = {row for row in rows.values() if row < GARBAGE}
    if GARBAGE in rows.values() or len(filled_) > 1:
        raise Unreadable("a reduction of what is no row")
    if filled_:  # a number instead, along all other dimensions, too
        return Made(filled(filled_.pop()), {})
    node, places = at(classes, made.node, rows)
    return Made(
        node,
        {
            v: (places[dim], stride)
            for v, (dim, stride) in made.where.items()
            if v not in alone
        },
        {v: held for v, held in made.rows.items() if v not in alone},
    )
