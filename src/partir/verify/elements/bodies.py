"""Regions of reducers, run on one element of each value."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from partir.ir.core import Lambda
from partir.verify.elements.cases import Scalar
from partir.verify.elements.constants import constant
from partir.verify.elements.elementwise import Elementwise
from partir.verify.layout import Unreadable

Row = tuple[Scalar, ...]
Reducer = Callable[[Row, Row], Row]
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
