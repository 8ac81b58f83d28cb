"""What tiles are tiles of: the rows that the source reads along a dimension.

Most read all rows of a class in their order. Some read others: ``x[::-1][i]`` looks up
in the rows of x from the last to the first, and a padded value in rows and numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from partir.verify.classes.rows import Rows
from partir.verify.layouts.layout import Digit, DigitLayout, Unreadable, View, repeated
from partir.verify.layouts.spread import with_rows
from partir.verify.machine.machine import Machine


def whole_rows(
    machine: Machine, kind: str, value: View, of_class: int
) -> Iterator[Rows]:
    """Rows of a class that the source may read by an op, one behind the other."""
    count = machine.term(value).dims[of_class]
    if count > 0:
        yield np.arange(count)
    terms = (machine.classes.terms[n] for n in machine.classes.nodes_of(kind))
    own = [term for term in terms if term.refs[0].node == value.node]
    items = {item for term in own for held in term.specials for item in held}
    for item in sorted(i for i in items if isinstance(i, tuple) and i[0] == "rows"):
        yield np.frombuffer(item[1], np.int64)  # type: ignore[call-overload]


def whole_view(
    machine: Machine,
    value: View,
    dim: int,
    of_class: int,
    axes: Sequence[int],
    rows: Rows,
) -> View:
    """A value with these rows along one dimension, the same on all devices."""
    local, held = list(value.layout.local), list(value.layout.axes)
    local[dim] = (Digit(of_class, 1, rows.size),)
    for axis in axes:
        if any(digit.dim not in (of_class, -1) for digit in held[axis]):
            raise Unreadable("an axis of several dimensions")
        held[axis] = repeated(machine.sizes[axis])
    tables = tuple(item for item in value.layout.tables if item[0] != of_class)
    layout = DigitLayout(tuple(local), tuple(held), tables)
    own = machine.term(value).dims[of_class]
    wide = [1] * (len(held) + len(local))
    wide[len(held) + dim] = rows.size
    return View(value.node, with_rows(layout, of_class, rows.reshape(wide), own))
