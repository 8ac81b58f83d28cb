"""Numbers in a wider type that has all of them, and back: the same numbers.

Types of few bits travel in wider ones. What comes back is what was sent, and what was
added up or multiplied on the way comes back as it would be in the narrow type: integers
wrap round, whatever the type that they are computed in. Maxima and minima are those of
the wider type's order, which is the same (`linear.py`).
"""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from partir.verify.classes.classes import Classes, Made
from partir.verify.classes.repetition import TIMES, times
from partir.verify.classes.rows import GARBAGE, Rows, RowTable, fill, filled
from partir.verify.classes.terms import ClassTerm
from partir.verify.classes.types import is_whole, widens
from partir.verify.identities.reduction import Reduction
from partir.verify.identities.sums import REDUCE, reduce
from partir.verify.layouts.layout import REPEATED, Digit, DigitLayout, Digits, View

CONVERT = "stablehlo.convert"


def narrow_again(classes: Classes, view: View, dtype: str) -> View | None:
    """A value converted to a narrower type, if it was of that type before."""
    if dtype == classes.terms[view.node].dtype:
        return None
    made = _narrow(classes, view.node, dtype)
    if made is None:
        return None
    layout = _moved(classes, view.layout, made, dtype)
    return None if layout is None else View(made.node, layout)


def _narrow(classes: Classes, node: int, dtype: str) -> Made | None:
    """A class in a narrower type; variables are the dimensions that it had."""
    term = classes.terms[node]
    if term.kind == CONVERT:
        (ref,) = term.refs
        was = classes.terms[ref.node]
        same = ref.dims == tuple((v,) for v in term.free) and not term.new
        if not same or was.dtype != dtype or not widens(dtype, term.dtype):
            return None
        return Made(ref.node, {dim: (dim, 1) for dim in range(len(term.dims))})
    if not is_whole(dtype) or not is_whole(term.dtype) or not _wraps(dtype, term.dtype):
        return None
    if term.kind == TIMES:
        inner = _narrow(classes, term.refs[0].node, dtype)
        often = int(str(term.attrs))
        return inner and inner._replace(node=times(classes, inner.node, often))
    if term.kind == REDUCE and term.attrs in ("sum", "product"):
        return _reduced(classes, term, dtype)
    return None


def _wraps(dtype: str, wide: str) -> bool:
    """Whether numbers of a wider type are taken modulo the narrow one's."""
    return "i1" not in (dtype, wide) and _bits(dtype) < _bits(wide)


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("ui"))


def _reduced(classes: Classes, term: ClassTerm, dtype: str) -> Made | None:
    """Sums and products of integers, narrow from the start."""
    (ref,) = term.refs
    inner = _narrow(classes, ref.node, dtype)
    if inner is None or any(size < 1 for size in term.sizes):
        return None
    sizes = dict(enumerate(term.sizes))
    dims: list[tuple[int, ...]] = [() for _ in classes.terms[inner.node].dims]
    for dim, held in enumerate(ref.dims):
        place, stride = inner.where[dim]
        if stride != 1 or dims[place]:
            return None
        dims[place] = held
    bound = frozenset(v for v in sizes if v not in term.free)
    what = Reduction(str(term.attrs), inner.node, tuple(dims), sizes, bound)
    made = reduce(classes, what)
    if made.rows or any(v not in made.where for v in term.free):
        return None
    return Made(made.node, {d: made.where[v] for d, v in enumerate(term.free)})


def _moved(
    classes: Classes, layout: DigitLayout, made: Made, dtype: str
) -> DigitLayout | None:
    """A layout over the dimensions that a class has now."""

    def moved(items: Digits) -> Digits:
        return tuple(
            d
            if d.dim == REPEATED
            else Digit(made.where[d.dim][0], d.stride * made.where[d.dim][1], d.size)
            for d in items
        )

    tables: list[tuple[int, RowTable]] = []
    for dim, table in layout.tables:
        place, stride = made.where[dim]
        rows = _rows(classes, table.rows, dtype)
        if rows is None or stride != 1:
            return None
        tables.append((place, RowTable(rows, table.size)))
    local, axes = tuple(map(moved, layout.local)), tuple(map(moved, layout.axes))
    return DigitLayout(local, axes, tuple(sorted(tables, key=itemgetter(0))))


def _rows(classes: Classes, rows: Rows, dtype: str) -> Rows | None:
    """Rows of what was converted; numbers in place of rows are narrow again, too."""
    found = classes.rows.columns(rows, 1)[..., 0]
    if not np.array_equal(found, rows):  # numbers before they were converted
        return None
    for code in np.unique(rows[rows < GARBAGE]):
        number = _narrow(classes, filled(int(code)), dtype)
        if number is None:
            return None
        found = np.where(rows == code, fill(number.node), found)
    return found
