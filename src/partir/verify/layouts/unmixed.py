"""`unmixed`: rows that an op reads along and beside at once, as dimensions of a class.

A row of a class may be counted by several local dimensions together: neighbours put
side by side are rows 0 and 1, 1 and 2, …. An op that runs along one of these dimensions
and not along the other reads no rows of the class in their order. What it reads is a
class of its own: it has a dimension for each of the local ones in place of the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import Rows
from partir.verify.classes.terms import ClassTerm, Ref
from partir.verify.layouts.align import Equation, Label
from partir.verify.layouts.layout import (
    Digit,
    DigitLayout,
    Digits,
    View,
    size_of,
)
from partir.verify.layouts.spread import dims_held, rows_of

WRITTEN = "written rows"


def unmixed(
    classes: Classes, equation: Equation, views: Sequence[View]
) -> Sequence[View]:
    """Views in which no row is counted along an op and beside it."""
    if not equation.special and not equation.groups:
        return views
    return [
        _unmixed(classes, equation, labels, view) if view.layout.tables else view
        for labels, view in zip(equation.operands, views, strict=True)
    ]


def _unmixed(
    classes: Classes, equation: Equation, labels: Sequence[Label], view: View
) -> View:
    for dim in sorted((dim for dim, _ in view.layout.tables), reverse=True):
        held = [dim in dims_held(items) for items in view.layout.local]
        counted = {labels[n] for n, counts in enumerate(held) if counts}
        if len({_role(equation, label) for label in counted}) > 1:
            view = _written(classes, view, dim)
    return view


def _role(equation: Equation, label: Label) -> object:
    """Labels of one role are read together: one is special, or a group, or none."""
    groups = (group for group in equation.groups if label in group)
    return label if label in equation.special else next(groups, None)


def _written(classes: Classes, view: View, dim: int) -> View:
    """The class that has a dimension for each local one in place of a row.

    The view as it is, if devices have different rows, or some are not known.
    """
    layout = view.layout
    rows = rows_of(layout, dim)
    counting = [n for n, items in enumerate(layout.local) if dim in dims_held(items)]
    alone = all({d.dim for d in layout.local[n]} == {dim} for n in counting)
    if rows[(0,) * len(layout.axes)].size < rows.size or (rows < 0).any() or not alone:
        return view
    sizes = tuple(size_of(layout.local[n]) for n in counting)
    node = _class(classes, view.node, dim, rows.reshape(sizes))
    count = len(classes.terms[view.node].dims)
    own = {n: count - 1 + place for place, n in enumerate(counting)}
    local = tuple(
        (Digit(own[n], 1, size_of(items)),) if n in own else _without(items, dim)
        for n, items in enumerate(layout.local)
    )
    axes = tuple(_without(items, dim) for items in layout.axes)
    tables = tuple(
        (other - (other > dim), table) for other, table in layout.tables if other != dim
    )
    return View(node, DigitLayout(local, axes, tables))


def _class(classes: Classes, node: int, dim: int, rows: Rows) -> int:
    term = classes.terms[node]
    every = tuple(range(len(term.dims)))
    made = ClassTerm(
        WRITTEN,
        (dim, rows.tobytes()),
        (Ref(node, tuple((n,) for n in every)),),
        term.dims,
        tuple(n for n in every if n != dim),
        new=rows.shape,
        dtype=term.dtype,
    )
    return classes.of(made)


def _without(items: Digits, dim: int) -> Digits:
    """Digits of the other dimensions of the class, by their new numbers."""
    return tuple(digit._replace(dim=digit.dim - (digit.dim > dim)) for digit in items)
