"""Layouts written out: the row of a class's dimension at every place of every device.

Arrays have one dimension for every mesh axis and one for every local dimension, of size
one where nothing depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from partir.verify.classes.rows import GARBAGE, Rows, RowTable, as_digits
from partir.verify.layouts.layout import (
    REPEATED,
    Digit,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    digits,
    repeated,
    size_of,
)

MOST = 1 << 22  # places of one dimension that are written out


def dims_held(items: Digits) -> set[int]:
    """Dimensions of the class that these digits count."""
    return {digit.dim for digit in items if digit.dim != REPEATED}


def class_dims(layout: DigitLayout) -> list[int]:
    """Dimensions of the class that a layout speaks of."""
    found = {dim for dim, _ in layout.tables}
    for items in (*layout.axes, *layout.local):
        found |= dims_held(items)
    return sorted(found)


def table_of(layout: DigitLayout, dim: int) -> RowTable | None:
    """The table of a dimension, if it has one."""
    return next((table for d, table in layout.tables if d == dim), None)


def has_garbage(layout: DigitLayout) -> bool:
    """Whether some place shows what is not known, in whatever dimension."""
    return any((table.rows == GARBAGE).any() for _, table in layout.tables)


def rows_of(layout: DigitLayout, dim: int) -> Rows:
    """The row of a dimension at every place."""
    labels = (*layout.axes, *layout.local)
    rank, made = len(labels), np.zeros((1,) * len(labels), np.int64)
    for place, items in enumerate(labels):
        if dim in dims_held(items):
            shape = [1] * rank
            shape[place] = size_of(items)
            made = made + _along(items, dim).reshape(shape)
            if made.size > MOST:
                raise Unreadable("a dimension of too many places to write out")
    table = table_of(layout, dim)
    return made if table is None else table.rows[made]


def _along(items: Digits, dim: int) -> Rows:
    """What digits add to a dimension's position, along one label."""
    found, repeat = np.zeros(1, np.int64), 1
    for digit in reversed(items):
        stride = digit.stride if digit.dim == dim else 0
        steps = np.arange(digit.size, dtype=np.int64) * stride
        found = (steps[:, None] + found[None, :]).reshape(-1)
        repeat *= digit.size
    return found


def shape_of(layout: DigitLayout) -> tuple[int, ...]:
    """Sizes of mesh axes and local dimensions."""
    return tuple([size_of(items) for items in (*layout.axes, *layout.local)])


def rebuilt(
    layout: DigitLayout,
    changed: Mapping[int, Rows],
    shape: Sequence[int],
    sizes: Mapping[int, int],
) -> DigitLayout:
    """A layout of another shape, with these rows for some dimensions of the class.

    `sizes` are the class's own.
    """
    labels = [*layout.axes, *layout.local]
    kept = [_without(items, changed) for items in labels]
    for place, items in enumerate(kept):
        if size_of(items) != shape[place] and dims_held(items):
            raise Unreadable("dimensions that are cut together with others")
    tables = {dim: table for dim, table in layout.tables if dim not in changed}
    held: dict[int, list[Digit]] = {}
    for dim, rows in changed.items():
        wide = [place for place, size in enumerate(rows.shape) if size > 1]
        if any(dims_held(kept[place]) or place in held for place in wide):
            raise Unreadable("a place that depends on several dimensions at once")
        strides = as_digits(rows, rows.shape, sizes[dim])
        if strides is None:
            tables[dim] = RowTable(rows, sizes[dim])
            strides = _row_major(rows.shape)
        for place in wide:
            held[place] = [Digit(dim, strides[place], rows.shape[place])]
    made = [
        digits(held[place]) if place in held else _resized(items, shape[place])
        for place, items in enumerate(kept)
    ]
    axes = len(layout.axes)
    return DigitLayout(
        tuple(made[axes:]), tuple(made[:axes]), tuple(sorted(tables.items()))
    )


def with_rows(layout: DigitLayout, dim: int, rows: Rows, size: int) -> DigitLayout:
    """A layout of the same shape with other rows of one dimension of its class."""
    try:
        return rebuilt(layout, {dim: rows}, shape_of(layout), {dim: size})
    except Unreadable as error:  # places count other dimensions, too
        without = tuple(item for item in layout.tables if item[0] != dim)
        at = rows_of(DigitLayout(layout.local, layout.axes, without), dim)
        at, rows = np.broadcast_arrays(at, rows)
        table = np.full(int(at.max()) + 1, GARBAGE, np.int64)
        table[at] = rows
        if not np.array_equal(table[at], rows):
            raise error
        return with_table(layout, dim, RowTable(table, size))


def with_table(layout: DigitLayout, dim: int, table: RowTable) -> DigitLayout:
    """Other rows at the positions of a dimension: as digits, if they can count them."""
    labels = (*layout.axes, *layout.local)
    held = sorted((d for items in labels for d in items if d.dim == dim), reverse=True)
    sizes = [digit.size for digit in held]
    in_order = [digit.stride for digit in held] == _row_major(sizes)
    strides = as_digits(table.rows, sizes, table.size) if in_order else None
    tables = {**dict(layout.tables), dim: table}
    if strides is None:
        return DigitLayout(layout.local, layout.axes, tuple(sorted(tables.items())))
    del tables[dim]
    new = {d: d._replace(stride=s) for d, s in zip(held, strides, strict=True)}
    local, axes = (
        tuple(digits(new.get(d, d) for d in items) for items in labels_)
        for labels_ in (layout.local, layout.axes)
    )
    return DigitLayout(local, axes, tuple(sorted(tables.items())))


def _without(items: Digits, changed: Mapping[int, Rows]) -> Digits:
    if not any(digit.dim in changed for digit in items):
        return items
    if any(digit.dim not in changed and digit.dim != REPEATED for digit in items):
        raise Unreadable("dimensions that are cut together with others")
    return ()


def _resized(items: Digits, size: int) -> Digits:
    return items if dims_held(items) else repeated(size)


def _row_major(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]


def narrowed(rows: Rows) -> Rows:
    """Rows without the places that nothing depends on."""
    for place, size in enumerate(rows.shape):
        if size > 1:
            first = rows.take([0], place)
            if (rows == first).all():
                rows = first
    return rows


def along(layout: DigitLayout, dim: int | None) -> int | None:
    """The dimension of the class that a local one counts; None if it repeats."""
    found = set() if dim is None else dims_held(layout.local[dim])
    if len(found) > 1:
        raise Unreadable("dimensions that are cut together with others")
    return found.pop() if found else None


def tiled_along(layout: DigitLayout, dim: int) -> list[int]:
    """Dimensions of the class that a local one may count: of one row, any that others
    don't count and devices have different rows of.
    """
    found = along(layout, dim)
    if found is not None or layout.local[dim]:
        return [] if found is None else [found]
    others = {d for items in layout.local for d in dims_held(items)}
    return sorted({d for items in layout.axes for d in dims_held(items)} - others)


def relaid(layout: DigitLayout, dim: int, at: Rows, size: int, own: int) -> DigitLayout:
    """A layout whose rows along one local dimension are at other places.

    `GARBAGE` is nowhere; `own` is how many rows the class has there.
    """
    shape = list(shape_of(layout))
    place = len(layout.axes) + dim
    if at.shape[place] == 1 < size:
        at = np.broadcast_to(
            at, [size if n == place else s for n, s in enumerate(at.shape)]
        )
    shape[place] = size
    of_class = along(layout, dim)
    if of_class is None:
        if (at == GARBAGE).any():
            raise Unreadable("rows that are nowhere, of a value without rows")
        return rebuilt(layout, {}, shape, {})
    rows = taken(rows_of(layout, of_class), at, place)
    return rebuilt(layout, {of_class: rows}, shape, {of_class: own})


def taken(rows: Rows, at: Rows, place: int) -> Rows:
    """Rows at places along one dimension."""
    shape = [
        max(a, b) if n != place else rows.shape[place]
        for n, (a, b) in enumerate(zip(rows.shape, at.shape, strict=True))
    ]
    whole = np.broadcast_to(rows, shape)
    shape[place] = at.shape[place]
    index = np.broadcast_to(at, shape)
    inside = (index >= 0) & (index < whole.shape[place])
    if whole.shape[place] == 1:
        found = np.broadcast_to(whole, shape)
        return narrowed(np.where(index == GARBAGE, GARBAGE, found))
    found = np.take_along_axis(whole, np.where(inside, index, 0), place)
    return narrowed(np.where(inside, found, GARBAGE))


def in_order(layout: DigitLayout) -> DigitLayout:
    """The layout with its tables' positions counted in the order of its places."""
    if not layout.tables:
        return layout
    rows = {dim: narrowed(rows_of(layout, dim)) for dim, _ in layout.tables}
    sizes = {dim: table.size for dim, table in layout.tables}
    try:
        return rebuilt(layout, rows, shape_of(layout), sizes)
    except Unreadable:  # as it is
        return layout


def same(have: View, want: View) -> bool:
    """Whether two views show the same element of the same class at every place."""
    if have == want:
        return True
    if have.node != want.node or shape_of(have.layout) != shape_of(want.layout):
        return False
    if not have.layout.tables and not want.layout.tables:
        return False
    dims = {*class_dims(have.layout), *class_dims(want.layout)}
    return all(_same_rows(have.layout, want.layout, dim) for dim in dims)


def _same_rows(have: DigitLayout, want: DigitLayout, dim: int) -> bool:
    found, wanted = rows_of(have, dim), rows_of(want, dim)
    agree = (found == wanted) & (found != GARBAGE)
    return bool((agree | (wanted == GARBAGE)).all())


def pinned_dims(layout: DigitLayout) -> set[int]:
    """Dimensions of the class that are read at one row."""
    held = [dims_held(items) for items in (*layout.local, *layout.axes)]
    return {dim for dim, _ in layout.tables} - set().union(*held)


def loose_dims(layout: DigitLayout, dim: int | None) -> set[int]:
    """Dimensions of the class that no other local dimension counts."""
    found = {*class_dims(layout)}
    if dim is None:
        return found
    for other, items in enumerate(layout.local):
        if other != dim:
            found -= dims_held(items)
    return found
