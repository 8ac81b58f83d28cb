"""Ops on integers and truths: known ones are computed, others case by case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from partir.verify.elements.cases import (
    FALSE,
    TRUE,
    Algebra,
    Scalar,
    Unknown,
    negated,
)
from partir.verify.elements.field import MODULUS
from partir.verify.elements.rings import Integers, Plain, Truths

HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
}
TURNED = {"GT": "LT", "GE": "LE"}


def compared(algebra: Algebra, ring: Integers, way: str, x: Plain, y: Plain) -> Scalar:
    """Whether one integer is less than another, or equal to it."""
    if way in TURNED:
        return compared(algebra, ring, TURNED[way], y, x)
    if isinstance(ring, Truths):
        return _of_truths(way, x, y)
    if way in ("EQ", "NE") and x[0] and y[0]:
        x, y = ring.add(x, ring.neg(y)), ring.zero
        if x[0] > MODULUS - x[0]:  # of both differences, one
            x = ring.neg(x)
    if not x[0] and not y[0]:
        return TRUE if HOLDS[way](ring.typed(x[1]), ring.typed(y[1])) else FALSE
    if x[0] and y[0] and x[0] != y[0]:
        if way == "LE":
            other = algebra.truth("LT", ring.bits, ring.signed, y, x)
            return algebra.cases(other.unknown, (0, 1), (TRUE, FALSE), Truths())
        return algebra.truth("LT", ring.bits, ring.signed, x, y)
    return _by_cases(algebra, ring, way, x, y)


def _by_cases(algebra: Algebra, ring: Integers, way: str, x: Plain, y: Plain) -> Scalar:
    """Both depend on one unknown integer, or one of them does: where it changes."""
    unknown = algebra.unknown_of(x[0] or y[0], ring)
    edges: set[int] = set()
    for one, other in ((x, y), (y, x)):
        if one[0]:
            edges.add(ring.least - one[1])
            if not other[0]:
                edges |= {other[1] - one[1], other[1] + 1 - one[1]}
    starts = starts_from(edges, ring, unknown)
    holds = []
    for start in starts:
        sides = [ring.typed(one[1] + (start if one[0] else 0)) for one in (x, y)]
        holds.append(TRUE if HOLDS[way](*sides) else FALSE)
    return algebra.cases(unknown, starts, holds, Truths())


def starts_from(edges: Iterable[int], ring: Integers, unknown: Unknown) -> list[int]:
    """Where something may change, of the integers that the unknown one can be."""
    found = {0} | {edge % ring.count for edge in edges}
    return sorted(start for start in found if start < 1 << unknown[1])


def _of_truths(way: str, x: Plain, y: Plain) -> Plain:
    if way == "NE":
        return different(x, y)
    if way == "EQ":
        return negated(different(x, y))
    less = both(negated(x), y)
    return less if way == "LT" else negated(both(x, negated(y)))


def both(x: Plain, y: Plain) -> Plain:
    """Whether two truths hold."""
    if x == y:
        return x
    (a, m), (b, n) = x, y
    return (a * b + a * n + b * m) % MODULUS, m * n


def either(x: Plain, y: Plain) -> Plain:
    """Whether one of two truths holds."""
    return negated(both(negated(x), negated(y)))


def different(x: Plain, y: Plain) -> Plain:
    """Whether one of two truths holds, and the other does not."""
    return either(both(x, negated(y)), both(y, negated(x)))


# Known integers


def _divided(x: int, y: int, ring: Integers) -> int | None:
    if not y:
        return None
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _remainder(x: int, y: int, ring: Integers) -> int | None:
    quotient = _divided(x, y, ring)
    return None if quotient is None else x - y * quotient


def _left(x: int, y: int, ring: Integers) -> int:
    by = y % ring.count
    return x << by if by < ring.bits else 0


def _right(x: int, y: int, ring: Integers) -> int:
    by = y % ring.count
    return (x % ring.count) >> by if by < ring.bits else 0


def _right_signed(x: int, y: int, ring: Integers) -> int:
    by = y % ring.count
    return ring.wrapped(x) >> min(by, ring.bits - 1)


def _power(x: int, y: int, ring: Integers) -> int | None:
    return pow(x, y, ring.count) if y >= 0 else None


_RUN: dict[str, Callable[..., int | None]] = {
    "abs": lambda x, ring: abs(x),
    "and": lambda x, y, ring: x & y,
    "or": lambda x, y, ring: x | y,
    "xor": lambda x, y, ring: x ^ y,
    "not": lambda x, ring: ~x,
    "sign": lambda x, ring: (x > 0) - (x < 0),
    "popcnt": lambda x, ring: (x % ring.count).bit_count(),
    "count_leading_zeros": lambda x, ring: ring.bits - (x % ring.count).bit_length(),
    "divide": _divided,
    "remainder": _remainder,
    "shift_left": _left,
    "shift_right_logical": _right,
    "shift_right_arithmetic": _right_signed,
    "power": _power,
}


def computed(ring: Integers, name: str, args: Sequence[Plain]) -> Plain | None:
    """An op on known integers; None if one is not, or nobody says what comes out."""
    run = _RUN.get(name)
    known = [ring.known(x) for x in args]
    if run is None or None in known:
        return None
    made = run(*known, ring)
    return None if made is None else ring.number(made)
