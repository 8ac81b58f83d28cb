"""`picked`: rows that the source has one behind the other, counted from zero.

What an op makes of windows or of shifted operands has rows with numbers of their own
(`rows.py`). As the rows of a class that counts them they are plain again, and so is all
that is made of them: a deep network is read as quickly as one without windows.
"""

from __future__ import annotations

from partir.verify.classes.classes import Classes, Made
from partir.verify.classes.rows import FIRST_MADE
from partir.verify.classes.terms import ClassTerm, Ref
from partir.verify.layouts.layout import View
from partir.verify.layouts.spread import dims_held, rows_of, with_rows

PICKED = "picked"


def picked(classes: Classes, view: View) -> View:
    """A view with made rows, if the source has them, as one of plain rows."""
    for dim, table in view.layout.tables:
        if (table.rows >= FIRST_MADE).any() and _is_held(view, dim):
            number = classes.rows.pick(table.rows)
            if number is not None:
                view = _counted(classes, view, dim, number)
    return view


def _is_held(view: View, dim: int) -> bool:
    labels = (*view.layout.local, *view.layout.axes)
    return any(dim in dims_held(items) for items in labels)


def pick(classes: Classes, node: int, dim: int, number: int) -> int:
    """The class whose rows are those of a table, counted."""
    term, picks = classes.terms[node], {dim: number}
    if term.kind == PICKED:
        assert dim not in dict(term.attrs), "rows that are counted already"
        picks |= dict(term.attrs)
        node = term.refs[0].node
    sizes = list(term.dims)
    sizes[dim] = classes.rows.picked_size(number)
    every = tuple(range(len(sizes)))
    refs = (Ref(node, tuple((n,) for n in every)),)
    key = tuple(sorted(picks.items()))
    made = ClassTerm(PICKED, key, refs, tuple(sizes), every, dtype=term.dtype)
    return classes.of(made)


def _counted(classes: Classes, view: View, dim: int, number: int) -> View:
    size = classes.rows.picked_size(number)
    node = pick(classes, view.node, dim, number)
    rows = classes.rows.places(rows_of(view.layout, dim), number)
    return View(node, with_rows(view.layout, dim, rows, size))


def picked_rows(classes: Classes, made: Made) -> Made:
    """The same for a class in the making: its rows, if the source has them."""
    node, rows = made.node, dict(made.rows)
    for variable, held in made.rows.items():
        number = classes.rows.pick(held) if (held >= FIRST_MADE).any() else None
        if number is not None:
            node = pick(classes, node, made.where[variable][0], number)
            rows[variable] = classes.rows.places(held, number)
    return made._replace(node=node, rows=rows)
