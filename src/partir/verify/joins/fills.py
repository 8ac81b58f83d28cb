"""Numbers in place of rows: those that are forgotten, and several around a value."""

from __future__ import annotations

import numpy as np

from partir.verify.classes.rows import GARBAGE, RowTable
from partir.verify.layouts.layout import DigitLayout, Unreadable


def forgotten(layout: DigitLayout, of_class: int, codes: set[int]) -> DigitLayout:
    """Nothing is known of numbers in place of other rows, but of these."""
    tables = []
    for dim, table in layout.tables:
        rows = table.rows
        if dim != of_class:
            gone = (rows < GARBAGE) & ~np.isin(rows, list(codes))
            rows = np.where(gone, GARBAGE, rows)
        tables.append((dim, RowTable(rows, table.size)))
    return DigitLayout(layout.local, layout.axes, tuple(tables))


def one_fill(layout: DigitLayout) -> DigitLayout:
    """The layout, if at most one number stands in place of its rows."""
    codes = {int(c) for _, table in layout.tables for c in table.rows[table.rows < -1]}
    if len(codes) > 1 and sum((t.rows < -1).any() for _, t in layout.tables) > 1:
        raise Unreadable("several numbers around a value")
    return layout
