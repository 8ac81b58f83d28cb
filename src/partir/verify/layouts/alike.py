"""Whether two views show the same numbers, in whatever form their classes are read.

Rows of a class may be counted (`picks.py`), pinned (`pins.py`) or merged with others
(`merging.py`) in the one, and written out in the other.
"""

from __future__ import annotations

import contextlib

from partir.verify.classes.classes import Classes
from partir.verify.layouts.layout import Unreadable, View
from partir.verify.layouts.merging import base_of, in_form
from partir.verify.layouts.picks import PICKED
from partir.verify.layouts.pins import unsettled
from partir.verify.layouts.spread import rows_of, same, with_rows


def alike(classes: Classes, have: View, want: View) -> bool:
    """Whether a view shows what another one does at every place."""
    if same(have, want):
        return True
    have, want = (written_out(classes, view) for view in (have, want))
    if same(have, want):
        return True
    (base, form), (other, wanted) = (base_of(classes, v.node) for v in (have, want))
    if base != other:
        return False
    for groups in (form, wanted):
        merged = tuple(items for items in groups if len(items) > 1)
        with contextlib.suppress(Unreadable):
            if same(*(in_form(classes, view, merged) for view in (have, want))):
                return True
    return False


def written_out(classes: Classes, view: View) -> View:
    """Rows as rows of the class that they are of, numbers and all."""
    before = None
    while view != before:
        before, view = view, unsettled(classes, _uncounted(classes, view))
    return view


def _uncounted(classes: Classes, view: View) -> View:
    """Counted rows, as the rows that are counted."""
    term = classes.terms[view.node]
    if term.kind != PICKED:
        return view
    (ref,), layout = term.refs, view.layout
    try:
        for dim, number in term.attrs:
            rows = classes.rows.picked(rows_of(layout, dim), number)
            layout = with_rows(layout, dim, rows, classes.terms[ref.node].dims[dim])
    except Unreadable:
        return view
    return View(ref.node, layout)
