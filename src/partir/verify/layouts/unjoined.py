"""Rows of one class alone among those of several, as rows of that class again.

What was put side by side (`joins.py`) and cut apart again is what it was before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import (
    FIRST_FILLED,
    FIRST_MADE,
    GARBAGE,
    OPEN,
    Rows,
    filled,
)
from partir.verify.classes.terms import Dims
from partir.verify.layouts.layout import (
    REPEATED,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    digits,
    repeated,
    size_of,
)
from partir.verify.layouts.picks import PICKED
from partir.verify.layouts.spread import (
    class_dims,
    has_garbage,
    rebuilt,
    rows_of,
    shape_of,
    with_rows,
)

JOINED = "joined"


def without_dim(
    layout: DigitLayout, of_class: int | None, dim: int | None
) -> DigitLayout:
    """A layout without one dimension of its class."""

    def without(items: Digits) -> Digits:
        return digits(
            d._replace(dim=REPEATED, stride=0) if d.dim == of_class else d
            for d in items
        )

    local = [without(items) for items in layout.local]
    if dim is not None:
        local[dim] = ()
    tables = tuple(item for item in layout.tables if item[0] != of_class)
    return DigitLayout(tuple(local), tuple(map(without, layout.axes)), tables)


def split(classes: Classes, view: View) -> View:
    """Rows of one class alone, as a value of that class again."""
    plain = unpicked(classes, view)
    if classes.terms[plain.node].kind != JOINED:
        return view
    found = _of_one(classes, plain)
    return view if found.node == plain.node else found


def _of_one(classes: Classes, view: View) -> View:
    """Rows of several classes, if they are of one, as rows of that one."""
    rows = rows_of(view.layout, 0)
    if (rows >= FIRST_FILLED).any():  # numbers of what was made, and no rows
        return view
    valid = rows[rows >= FIRST_MADE]
    made = classes.rows
    if not valid.size:
        codes = np.unique(rows[rows != GARBAGE])
        if codes.size == 1 and not has_garbage(view.layout):
            return _everywhere(view.layout, int(codes[0]))
        return view
    keys = {made.class_of(int(row)) for row in np.unique(valid)}
    if len(keys) > 1 or len(valid) < rows[rows != GARBAGE].size:
        return view
    node, of_class, *flat = keys.pop()
    if of_class < 0 and (rows == GARBAGE).any():
        return view  # without rows of its own, no place could say what is not known
    return _unwrapped(classes, view, node, of_class, flat, rows)


def _everywhere(layout: DigitLayout, code: int) -> View:
    """One number at all places."""
    local = tuple(repeated(size_of(held)) for held in layout.local)
    axes = tuple(repeated(size_of(held)) for held in layout.axes)
    return View(filled(code), DigitLayout(local, axes))


def _unwrapped(
    classes: Classes,
    view: View,
    node: int,
    of_class: int,
    flat: Sequence[int],
    rows: Rows,
) -> View:
    """`view` is of a joined class, all of its rows are of `node`."""
    places, own, group = {}, 0, list[int]()
    sizes = classes.terms[view.node].dims[1:]
    for item in flat:
        if item != -4:
            group.append(item)
            continue
        stride = 1
        for variable in reversed(group):
            places[variable + 1] = (own, stride)
            stride *= sizes[variable]
        own, group = own + 1, []
    tables = dict(view.layout.tables)
    tables.pop(0, None)
    if any(d not in places or places[d][1] != 1 for d in tables):
        return view
    base = without_dim(view.layout, 0, None)

    def renamed(items: Digits) -> Digits:
        return digits(
            d
            if d.dim == REPEATED
            else d._replace(dim=places[d.dim][0], stride=d.stride * places[d.dim][1])
            for d in items
        )

    kept = tuple(sorted((places[d][0], t) for d, t in tables.items()))
    layout = DigitLayout(
        tuple(map(renamed, base.local)), tuple(map(renamed, base.axes)), kept
    )
    if of_class < 0:
        return View(node, layout)
    own_rows = classes.rows.rows_of_class(rows)
    size = classes.terms[node].dims[of_class]
    shape = shape_of(view.layout)
    return View(node, rebuilt(layout, {of_class: own_rows}, shape, {of_class: size}))


def unpicked(classes: Classes, view: View) -> View:
    """Counted rows of several classes, as these rows."""
    term = classes.terms[view.node]
    if term.kind != PICKED:
        return view
    (ref,), picks = term.refs, dict(term.attrs)
    if classes.terms[ref.node].kind != JOINED or picks.keys() != {0}:
        return view
    rows = classes.rows.picked(rows_of(view.layout, 0), picks[0])
    try:
        return View(ref.node, with_rows(view.layout, 0, rows, OPEN))
    except Unreadable:
        return view


def handed_on(classes: Classes, views: Sequence[View]) -> list[View]:
    """Operands of an op on each element: what is not known, known of another one.

    A value that is equal in all rows, but for places of which nothing is known, has no
    rows of its own to tell them. What is made of it has none there, either: so may
    another operand, which has rows.
    """
    made = list(views)
    for number in range(len(made)):
        found = _but_for_garbage(classes, made[number])
        if found is None:
            continue
        for other, layout in _with_garbage(classes, made, number, found[1]):
            made[number] = found[0]
            made[other] = View(made[other].node, layout)
            break
    return made


def _but_for_garbage(classes: Classes, view: View) -> tuple[View, Rows] | None:
    """A value without rows, if it is one but for some places; and these."""
    plain = unpicked(classes, view)
    if classes.terms[plain.node].kind != JOINED:
        return None
    rows = rows_of(plain.layout, 0)
    if (rows >= FIRST_FILLED).any():
        return None
    absent, valid = rows == GARBAGE, rows[rows >= FIRST_MADE]
    numbers = np.unique(rows[rows < GARBAGE])
    elsewhere = has_garbage(without_dim(plain.layout, 0, None))
    if numbers.size == 1 and not valid.size and absent.any() and not elsewhere:
        return _everywhere(plain.layout, int(numbers[0])), absent
    keys = {classes.rows.class_of(int(row)) for row in np.unique(valid)}
    if len(keys) != 1 or valid.size + absent.sum() < rows.size or not absent.any():
        return None
    node, of_class, *flat = keys.pop()
    if of_class >= 0:
        return None
    found = _unwrapped(classes, plain, node, of_class, flat, rows)
    return None if found.node == plain.node else (found, absent)


def _with_garbage(
    classes: Classes, views: Sequence[View], but: int, absent: Rows
) -> Iterator[tuple[int, DigitLayout]]:
    """Operands that may say so, and how: those whose rows differ at these places."""
    wide = [place for place, size in enumerate(absent.shape) if size > 1]
    for number, view in enumerate(views):
        if number == but:
            continue
        for dim in class_dims(view.layout):
            rows = rows_of(view.layout, dim)
            if rows.ndim == absent.ndim and all(rows.shape[n] > 1 for n in wide):
                size = classes.terms[view.node].dims[dim]
                rows = np.where(absent, GARBAGE, rows)
                with contextlib.suppress(Unreadable):
                    yield number, with_rows(view.layout, dim, rows, size)


def first_class(classes: Classes, view: View) -> int:
    """The class that gives a value its place among others: the first that it joins."""
    if classes.terms[view.node].kind != JOINED:
        return view.node
    made, rows = classes.rows, rows_of(view.layout, 0)
    codes = np.unique(rows[(rows >= FIRST_MADE) & (rows < FIRST_FILLED)])
    held = [made.class_of(int(c))[0] for c in codes if made.is_of_class(int(c))]
    return min(held, default=view.node)


def read_through(classes: Classes, dims: Dims, rows: Rows) -> Rows | None:
    """Rows of a joined class as rows of those that it joins, at the same places.

    Where these have their other dimensions is said in those of the joined class, which
    may come in another order here.
    """
    if dims[1:] == tuple((n,) for n in range(len(dims) - 1)):
        return rows
    made, found = classes.rows, rows.copy()
    codes = np.unique(rows[(rows >= FIRST_MADE) & (rows < FIRST_FILLED)])
    if not all(dims[1:]) or not all(made.is_of_class(int(code)) for code in codes):
        return None
    for code in codes:
        node, own, *flat = made.class_of(int(code))
        key = [node, own]
        for number in flat:
            key += [number] if number < 0 else [*dims[number + 1]]
        found[rows == code] = made.of_class(key, made.rows_of_class(np.array([code])))
    return found
