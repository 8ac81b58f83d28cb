"""What is a finite number for certain, whatever the inputs: how large it may be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from partir.verify.classes.classes import Classes
from partir.verify.classes.known_functions import ROOM, computed
from partir.verify.classes.rows import (
    DROPPED,
    FIRST_FILLED,
    FIRST_MADE,
    GARBAGE,
    Rows,
    filled,
)
from partir.verify.classes.terms import ClassTerm

_DEPTH = 12
LARGEST = {"f16": 65504.0, "bf16": 3.38e38, "f32": 3.4e38, "f64": 1.79e308}
ROUNDING = 0.9  # of the largest number: what a few roundings can't lead beyond
_NORMAL = 2.0**-14
_LEAST = {"f16": _NORMAL}  # normal numbers
_LEAST_OF_OTHERS = 2.0**-126
_KEEPS = frozenset({"at", "picked", "merged"}) | frozenset(
    "stablehlo." + name
    for name in (
        "negate abs select maximum minimum concatenate slice dynamic_slice gather pad "
        "dynamic_update_slice reverse"
    ).split()
)
_WITHIN_ONE = frozenset(
    "stablehlo." + name for name in "sine cosine tanh logistic sign".split()
)
_WITHIN_ONE_MORE = frozenset(  # than what they round
    "stablehlo." + name for name in "floor ceil round_nearest_even".split()
)
_NUMBER = re.compile(r"-?\d+\.?\d*(?:[eE][+-]?\d+)?")
_COMPUTED: dict[str, Callable[[float, float], float]] = {
    "stablehlo.add": lambda x, y: x + y,
    "stablehlo.subtract": lambda x, y: x + y,
    "stablehlo.multiply": lambda x, y: x * y,
}


def is_finite(classes: Classes, node: int, depth: int = _DEPTH) -> bool:
    """Whether all numbers of a class are finite: integers, and what is bounded."""
    whole = classes.terms[node].dtype[0] in "iu"
    return whole or bound(classes, node, depth) is not None


def bound(classes: Classes, node: int, depth: int = _DEPTH) -> float | None:
    """How far floats of a class are from zero at most; None if that may be any."""
    term = classes.terms[node]
    found = _bound(classes, term, depth) if depth else None
    limit = ROUNDING * LARGEST.get(term.dtype, 0.0)
    return found if found is not None and found <= limit else None


def _bound(classes: Classes, term: ClassTerm, depth: int) -> float | None:
    if term.kind == "constant":
        return _of_constant(term)
    if term.kind == "stablehlo.convert":
        return _converted(classes, term, depth)
    value = _value(classes, term, depth)
    if value is not None:
        return ROOM * abs(value)
    floats = [r.node for r in term.refs if classes.terms[r.node].dtype[0] not in "iu"]
    each = [bound(classes, ref, depth - 1) for ref in floats]
    known = [one for one in each if one is not None]
    if not known or len(known) < len(each):
        return None
    if term.kind in _KEEPS:
        finite = _rows_are_finite(classes, term, depth - 1)
        return max(known) if finite else None
    if term.kind in _WITHIN_ONE:
        return 1.0
    if term.kind in _WITHIN_ONE_MORE:
        return max(known) + 1.0
    if term.kind in _COMPUTED and len(known) == 2:
        return _COMPUTED[term.kind](*known)
    if term.kind == "stablehlo.divide":
        return _divided(known, classes.terms[floats[1]])
    return None


def _converted(classes: Classes, term: ClassTerm, depth: int) -> float | None:
    (ref,) = term.refs
    before = classes.terms[ref.node]
    known = _of_integers(before)
    if known is None and before.dtype in LARGEST:
        known = bound(classes, ref.node, depth - 1)
    return known


def _value(classes: Classes, term: ClassTerm, depth: int) -> float | None:
    """About what a function of known numbers is; None if that may be infinite."""
    if term.dims or term.new or not depth:
        return None
    if term.kind == "constant":
        known = _of_constant(term)
        return None if known is None else float(str(term.attrs))
    of = [_value(classes, classes.terms[ref.node], depth - 1) for ref in term.refs]
    if not of or None in of:
        return None
    found = computed(term.kind, of)
    most, least = LARGEST.get(term.dtype, 0.0), _LEAST.get(term.dtype, _LEAST_OF_OTHERS)
    near = found is not None and (not found or least < abs(found) < ROUNDING * most)
    return float(found) if near else None


def _of_constant(term: ClassTerm) -> float | None:
    """The largest of the numbers that a constant spells; of bits nothing is known."""
    text = str(term.attrs)
    if any(word in text.lower() for word in ("nan", "inf", "0x")):
        return None
    return max((abs(float(word)) for word in _NUMBER.findall(text)), default=None)


def _of_integers(term: ClassTerm) -> float | None:
    """The largest integer, of its type or as it is counted."""
    if term.dtype[0] not in "iu":
        return None
    if term.kind == "affine":
        first, steps = term.attrs  # as counting.py makes it
        spans = zip(steps, term.sizes, strict=True)
        return float(abs(first) + sum(abs(step) * (size - 1) for step, size in spans))
    return math.ldexp(1.0, int(term.dtype.lstrip("ui")) - (term.dtype[0] == "i"))


def _divided(known: Sequence[float], by: ClassTerm) -> float | None:
    """By one number, which is known, and normal in every type."""
    one = by.kind == "constant" and not by.new
    return known[0] / known[1] if one and known[1] >= _NORMAL else None


def _rows_are_finite(classes: Classes, term: ClassTerm, depth: int) -> bool:
    """Whether no row that a class reads of another has a number that is not finite."""
    if term.kind == "at":
        return are_finite(classes, np.array([row for _, row in term.attrs]), depth)
    if term.kind == "picked":
        tables = [classes.rows.table(number) for _, number in term.attrs]
        return all(are_finite(classes, table, depth) for table in tables)
    return True


def finite_beside(classes: Classes, columns: Rows) -> np.ndarray:
    """Of products of rows, those of which no factor is infinite for certain.

    Rows of values are believed to be finite, but not numbers in place of rows.
    """
    far = [
        int(code)
        for code in np.unique(columns[(columns < GARBAGE) | (columns >= FIRST_MADE)])
        if not are_finite(classes, np.array([code]))
    ]
    return np.logical_not(np.isin(columns, far).any(-1))


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
