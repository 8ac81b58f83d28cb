"""Dimensions along which all that a loop carries is equal.

A loop that starts from zeros and writes one number into each row carries values that
are equal along the other dimensions: any tile of these is any other. Its symbols go
without them, so that it does not matter how they are tiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.verify.classes.classes import Classes
from partir.verify.layouts.layout import REPEATED, View
from partir.verify.layouts.spread import table_of

Place = tuple[int, int]  # number of a carried value, one of its dimensions


def constant_along(
    classes: Classes,
    inits: Sequence[View],
    carried: Sequence[View],
    body: Sequence[View],
) -> frozenset[Place]:
    """Dimensions along which values are equal at first, and after each turn if before.

    What this finds is tried by running the loop again: it need not be right.
    """
    found = frozenset(
        (number, dim)
        for number, view in enumerate(inits)
        for dim, items in enumerate(view.layout.local)
        if items and all(digit.dim == REPEATED for digit in items)
    )
    while found:
        symbols = {
            (carried[number].node, digit.dim)
            for number, dim in found
            for digit in carried[number].layout.local[dim]
        }
        left = frozenset(
            place for place in found if _stays(classes, body, place, symbols)
        )
        if left == found:
            break
        found = left
    return found


def _stays(
    classes: Classes, body: Sequence[View], place: Place, symbols: set[Place]
) -> bool:
    """Whether a value depends along one dimension on nothing but these symbols."""
    node, layout = body[place[0]]
    held = [digit.dim for digit in layout.local[place[1]] if digit.dim != REPEATED]
    if any(table_of(layout, dim) is not None for dim in held):
        return False
    left, seen = [(node, dim) for dim in held], set[Place]()
    while left:
        here = left.pop()
        if here in symbols or here in seen:
            continue
        seen.add(here)
        read = _read_along(classes, *here)
        if not read:
            return False
        left += read
    return True


def _read_along(classes: Classes, node: int, dim: int) -> list[Place]:
    """Dimensions of the operands that an op reads along one of its own."""
    term = classes.terms[node]
    if dim >= len(term.free):
        return []
    variable = term.free[dim]
    return [
        (ref.node, number)
        for ref in term.refs
        for number, held in enumerate(ref.dims)
        if variable in held
    ]


def is_constant(view: View, dim: int) -> bool:
    """Whether a value does not depend on a local dimension."""
    return all(digit.dim == REPEATED for digit in view.layout.local[dim])
