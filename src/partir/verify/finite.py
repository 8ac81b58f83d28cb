"""What is a finite number for certain, whatever the inputs."""

from __future__ import annotations

import numpy as np

from partir.verify.classes import Classes
from partir.verify.rows import (
    DROPPED,
    FIRST_FILLED,
    FIRST_MADE,
    GARBAGE,
    Rows,
    filled,
)
from partir.verify.terms import ClassTerm

_DEPTH = 12
_KEEPS = frozenset({"at", "picked", "merged"}) | frozenset(
    "stablehlo." + name
    for name in (
        "negate abs select maximum minimum floor ceil round_nearest_even concatenate "
        "slice dynamic_slice gather pad dynamic_update_slice"
    ).split()
)


def is_finite(classes: Classes, node: int, depth: int = _DEPTH) -> bool:
    """Integers, constants, booleans as floats, and what only moves or chooses such."""
    term = classes.terms[node]
    if term.dtype[0] in "iu":
        return True
    if term.kind == "constant":
        return all(word not in str(term.attrs).lower() for word in ("nan", "inf", "0x"))
    if term.kind == "stablehlo.convert":
        small = classes.terms[term.refs[0].node].dtype in ("i1", "i8", "ui8")
        return small and term.dtype in ("f16", "bf16", "f32", "f64")
    if depth and term.kind in _KEEPS:
        return _rows_are_finite(classes, term, depth - 1) and all(
            is_finite(classes, ref.node, depth - 1) for ref in term.refs
        )
    return False


def _rows_are_finite(classes: Classes, term: ClassTerm, depth: int) -> bool:
    """Whether no row that a class reads of another has a number that is not finite."""
    if term.kind == "at":
        return are_finite(classes, np.array([row for _, row in term.attrs]), depth)
    if term.kind == "picked":
        tables = [classes.rows.table(number) for _, number in term.attrs]
        return all(are_finite(classes, table, depth) for table in tables)
    return True


def are_finite(classes: Classes, rows: Rows, depth: int = _DEPTH) -> bool:
    """Whether all numbers in place of rows are finite, and in place of operands'."""
    for row in map(int, np.unique(rows)):
        if row < GARBAGE or FIRST_FILLED <= row < DROPPED:
            node = filled(row) if row < GARBAGE else row - FIRST_FILLED
            if not is_finite(classes, node, depth):
                return False
        elif FIRST_MADE <= row < FIRST_FILLED:
            columns = classes.rows.tuple_of(row)
            if columns is None or not depth:
                return False
            if not are_finite(classes, columns, depth - 1):
                return False
    return True
