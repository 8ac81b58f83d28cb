"""Rows of the dimensions that a reduction keeps: what they are rows of after it.

A made row (`rows.py`) says how an op reads its operands, in their order: it means that
of one class alone. A reduction that moves inwards makes another class, whose operands
may come in another order, and each of which may have rows of its own by then. A number
in place of a row is that number as often as there is something to reduce.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from partir.verify.classes.classes import Classes
from partir.verify.classes.repetition import numbers_often
from partir.verify.classes.rows import BAG, DROPPED, FIRST_MADE, GARBAGE, Rows
from partir.verify.classes.terms import Dims, Variable
from partir.verify.identities.reduction import Reduction
from partir.verify.layouts.layout import Unreadable

Kept = Mapping[Variable, Rows]
Specials = Sequence[Sequence[Variable]]


def apart(classes: Classes, columns: Rows) -> tuple[Rows, Rows]:
    """Rows of a class, and the numbers that stand in place of some: their codes.

    `columns` has what each dimension shows; a number in one of them is a number. There
    is no row then, and where there is a row, the code is zero.
    """
    lost = (columns == GARBAGE).any(-1)
    is_number = columns < GARBAGE
    codes = np.where(is_number, columns, 0).min(-1)
    if (is_number & (columns != codes[..., None]) & ~lost[..., None]).any():
        raise Unreadable("several numbers in place of a row")
    codes = np.where(lost, 0, codes)
    rows = np.where((codes < 0)[..., None], GARBAGE, columns)
    alone = columns.shape[-1] == 1  # then it is the row of that dimension
    return rows[..., 0] if alone else classes.rows.tuples(rows), codes


def with_numbers(
    classes: Classes, monoid: str, rows: Rows, codes: Rows, count: int
) -> Rows:
    """Rows after a reduction over `count` places, with the numbers in place of some."""
    return np.where(codes < 0, numbers_often(classes, monoid, codes, count), rows)


def made_ones(rows: Kept) -> dict[Variable, Rows]:
    """The variables whose rows a reduction may turn into others."""
    return {v: held for v, held in rows.items() if (held >= FIRST_MADE).any()}


def kept_inside(
    classes: Classes, what: Reduction, refs: Sequence[tuple[int, Dims]]
) -> list[dict[Variable, Rows]] | None:
    """What each operand shows of the made rows that are kept; None if it can't be told.

    Bags say nothing of one operand by itself.
    """
    found: list[dict[Variable, Rows]] = [{} for _ in refs]
    for variable, rows in what.kept.items():
        mentions = [
            (place, dim)
            for place, (_, dims) in enumerate(refs)
            for dim in dims
            if variable in dim
        ]
        places = [place for place, _ in mentions]
        alone = all(dim == (variable,) for _, dim in mentions)
        if what.sizes[variable] == BAG or not alone or len({*places}) < len(places):
            return None
        columns = classes.rows.columns(rows, len(places))
        for number, place in enumerate(places):
            found[place][variable] = columns[..., number]
    return found


def specials_inside(
    classes: Classes,
    what: Reduction,
    refs: Sequence[tuple[int, Dims]],
    into: Sequence[bool],
    specials: Specials,
) -> Specials | None:
    """Dimensions that an op works along, of reduced operands; None if they are others.

    Which rows these read, and which numbers in place of some, is said with them.
    """
    read = {
        v
        for (_, dims), goes in zip(refs, into, strict=True)
        if goes
        for dim in dims
        for v in dim
    }
    made = []
    for items in specials:
        changed = list(items)
        for place, item in enumerate(items):
            if item[0] == "rows" and read & {*items}:
                rows = np.frombuffer(item[1], np.int64)
                if (rows >= FIRST_MADE).any():
                    return None
                changed[place] = ("rows", _reduced(classes, what, rows).tobytes())
        made.append(changed)
    return made


def _reduced(classes: Classes, what: Reduction, rows: Rows) -> Rows:
    """Plain rows, with the numbers in place of some reduced."""
    codes = np.where(rows < GARBAGE, rows, 0)
    if not codes.any():
        return rows
    count = math.prod(counted(what, v) for v in what.used)
    return with_numbers(classes, what.monoid, rows, codes, count)


def counted(what: Reduction, variable: Variable) -> int:
    """How often a reduction over a variable counts what does not depend on it."""
    if variable not in what.rows:
        return what.sizes[variable]
    counts = (what.rows[variable] != DROPPED).sum(-1)
    if (counts != counts[0]).any():
        raise Unreadable("a sum of equal values, on some devices of more")
    return int(counts[0])
