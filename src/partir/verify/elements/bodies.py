"""Regions of reducers, run on one element of each value."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from partir.ir.core import Lambda
from partir.verify.elements.cases import FALSE, GARBAGE, TRUE, WORK, Cases, Scalar
from partir.verify.elements.constants import constant
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import (
    Complex,
    Integers,
    Plain,
    Ring,
    Truths,
    ring_of,
)
from partir.verify.elements.starts import Reducer, Row, Start, any_row
from partir.verify.layouts.layout import Unreadable

_BITWISE = ("and", "or", "xor")
_NAMES = ("sum", "product", "max", "min", *_BITWISE)
_KNOWN = (FALSE, TRUE)
_TRIES = 3  # to run so many rows, or fewer, in vain
_MUCH = WORK >> 9  # for one try
_ORDERS = 4  # drawn at random, besides forwards and backwards


def body_of(ops: Elementwise, body: Lambda) -> Reducer:
    """What a region makes of two rows, an element of each value."""

    def run(one: Row, other: Row) -> Row:
        env = dict(zip(body.arguments, (*one, *other), strict=True))
        for op in body.ops:
            signature = op.signature
            if signature.name == "constant":
                (type_,) = signature.results
                text = signature.attrs["value"]
                (env[op.results[0]],) = constant(ops, text, type_.shape, type_.dtype)
                continue
            step = ops.run(signature)
            if step is None or len(op.results) != 1:
                raise Unreadable(f"{signature.name} in a reducer")
            env[op.results[0]] = step(*(env[value] for value in op.operands))
        return tuple(env[value] for value in body.results)

    return run


class Nameless:
    """A reducer without a name: run if its order is none, else it keeps its rows in it.

    It is known by what it makes of two rows of which nothing is known. If that is a sum
    here and a maximum there, each value is reduced by itself. Beside the values, there
    may be a flag without which a row counts nothing: then it is known by what it makes
    of rows that have one.
    """

    def __init__(self, ops: Elementwise, body: Lambda, start: Row) -> None:
        """Of a region, and the row that it starts from."""
        self.ops, self._start, self._run = ops, start, body_of(ops, body)
        self._dtypes = [body.types[value].dtype for value in body.results]
        self._rings = [ring_of(dtype) for dtype in self._dtypes]
        self._meaning, self._named = self._of_any_rows({})
        self._flags = [n for n in range(len(start)) if self._is_flag(n)]
        self._body = body
        self._flag = self._flags[0] if self._flags else None
        self._key = ((tuple(self._dtypes), self._meaning), self._flat(start))

    @cached_property
    def _counts(self) -> Start:
        """What it starts from, and whether that counts."""
        return Start(self.ops, self._body, self._run, self._start)

    def reduced(self, rows: Sequence[Row]) -> Row:
        """The row that rows make, from the first on."""
        if self._named is not None:
            return self._apart(self._named, [self._start, *rows])
        drops = self._counts.ends  # nothing, wherever it comes again
        others = [row for row in rows if row != self._start] if drops else rows
        known = self._in_any_order(others)
        if self._flag is not None and all(row[self._flag] in _KNOWN for row in rows):
            flagged = [row for row in rows if row[self._flag] == TRUE]
            if flagged:
                return self._flagged(self._flag, flagged, known)
        order = self.ops.monoids.in_order
        return order(self._key, others, self._rings, known, parts=self._counts.inside)

    def _in_any_order(self, rows: Sequence[Row]) -> Row | None:
        """What rows make, if that is no matter of order; not tried in vain for long."""
        vain = self.ops.in_vain.setdefault(self._key, [])
        if sum(count <= len(rows) for count in vain) >= _TRIES and not all(
            self._known(x, ring)
            for row in rows
            for x, ring in zip(row, self._rings, strict=True)
        ):
            return None
        algebra = self.ops.algebra
        left = algebra.left
        made = algebra.tried(partial(in_any_order, self._run, self._start, rows))
        if made is None and left - algebra.left > _MUCH:
            vain.append(len(rows))
        return made

    def _known(self, x: Scalar, ring: Ring) -> bool:
        """Whether something is a number, or both of its parts are."""
        if x is GARBAGE or type(x) is Cases:
            return False
        if isinstance(ring, Integers):
            return ring.known(x) is not None
        parts = x if isinstance(ring, Complex) else (x,)
        return None not in [self.ops.numbers.number(part) for part in parts]

    def _flagged(self, at: int, rows: Sequence[Row], known: Row | None) -> Row:
        """Rows that count, without their flags and what others start from."""

        def cut(row: Sequence[Any]) -> tuple[Any, ...]:
            return (*row[:at], *row[at + 1 :])

        meaning, named = self._of_any_rows({at: TRUE})
        if named is not None:
            return self._apart(named, rows)
        key = ((cut(self._dtypes), cut(meaning)), None)
        inner = None if known is None else cut(known)
        order = self.ops.monoids.in_order
        made = order(key, [cut(row) for row in rows], cut(self._rings), inner)
        return (*made[:at], TRUE, *made[at:])

    def _any_row(self, which: str, known: dict[int, Scalar]) -> Row:
        held = any_row(self.ops, which, self._rings)
        return tuple(known.get(n, one) for n, one in enumerate(held))

    def _of_any_rows(
        self, known: dict[int, Scalar]
    ) -> tuple[tuple[Plain, ...], list[str] | None]:
        """What is made of two rows, and by which monoids, if each value has one."""
        one, other = (self._any_row(which, known) for which in ("one", "other"))
        made = self._flat(self._run(one, other))
        names = [
            next(self._monoids(number, pair, made[number]), "")
            for number, pair in enumerate(zip(one, other, strict=True))
        ]
        return made, names if all(names) else None

    def _monoids(self, number: int, pair: Row, made: Plain) -> Iterator[str]:
        dtype, ring = self._dtypes[number], self._rings[number]
        names = _BITWISE if isinstance(ring, Truths) else _NAMES
        for name in names if isinstance(ring, Integers) else _NAMES[: -len(_BITWISE)]:
            if name == "product" and isinstance(ring, Complex):  # in its order, here
                total = self.ops.monoids.products.times(dtype, ring)(*pair)
            else:
                total = self.ops.monoids.total(name, dtype, ring, pair)
            if self.ops.algebra.flat(total, ring) == made:
                yield name

    def _apart(self, names: Sequence[str], rows: Sequence[Row]) -> Row:
        """Each value reduced by itself."""
        columns = zip(*rows, strict=True)
        return tuple(
            self.ops.monoids.total(name, dtype, ring, column)
            for name, dtype, ring, column in zip(
                names, self._dtypes, self._rings, columns, strict=True
            )
        )

    def _flat(self, row: Row) -> tuple[Plain, ...]:
        return self.ops.monoids.flat_row(row, self._rings)

    def _is_flag(self, at: int) -> bool:
        """Whether a row without it counts nothing, and neither does the start."""
        if not isinstance(self._rings[at], Truths) or self._start[at] != FALSE:
            return False
        with_, without = (
            [self._any_row(which, {at: flag}) for which in ("one", "other")]
            for flag in (TRUE, FALSE)
        )
        return (
            self._run(without[0], with_[1]) == with_[1]
            and self._run(with_[0], without[1]) == with_[0]
            and self._run(*with_)[at] == TRUE
        )


def in_any_order(run: Reducer, start: Row, rows: Sequence[Row]) -> Row | None:
    """All rows combined, if that comes out the same in several orders."""
    found = _folded(run, [start, *rows])
    drawn = random.Random(len(rows))
    orders = [[*reversed(rows), start]]
    for _ in range(_ORDERS if len(rows) > 1 else 0):
        order = [start, *rows]
        drawn.shuffle(order)
        orders.append(order)
    for order in orders:
        if _in_pairs(run, order, drawn) != found:
            return None
    return found


def _folded(run: Reducer, rows: Sequence[Row]) -> Row:
    made = rows[0]
    for row in rows[1:]:
        made = run(made, row)
    return made


def _in_pairs(run: Reducer, rows: Sequence[Row], drawn: random.Random) -> Row:
    """Neighbours combined, wherever."""
    left = [*rows]
    while len(left) > 1:
        at = drawn.randrange(len(left) - 1)
        left[at : at + 2] = [run(left[at], left[at + 1])]
    return left[0]
