"""Local dimensions that count several dimensions of a class."""

from __future__ import annotations

import pytest

from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import GARBAGE, RowTable, fill
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.layout import Digit, DigitLayout, Unreadable, View, whole
from partir.verify.layouts.merging import along_one, in_form, merged, plain
from partir.verify.layouts.spread import rows_of


def made(*sizes: int) -> tuple[Classes, int]:
    classes = Classes()
    term = ClassTerm("argument", 0, (), (), (), new=sizes, dtype="f32")
    return classes, classes.of(term)


def test_digits_of_a_merged_dimension_are_digits_of_the_class() -> None:
    classes, node = made(4, 6)
    flat = DigitLayout(((Digit(0, 1, 4), Digit(1, 1, 6)),), ())
    found = along_one(classes, View(node, flat), 0)
    assert found.layout.local == ((Digit(0, 1, 24),),)
    assert plain(classes, found) == View(node, flat)
    turned = DigitLayout(((Digit(1, 1, 6), Digit(0, 1, 4)),), ())
    other = along_one(classes, View(node, turned), 0)
    assert other.layout.local == ((Digit(0, 1, 6), Digit(0, 6, 4)),)
    assert plain(classes, other) == View(node, turned)


def test_rows_of_a_merged_dimension() -> None:
    classes, node = made(2, 3)
    tables = ((1, RowTable([fill(7), 0, 1, 2, GARBAGE], 3)),)
    flat = DigitLayout(((Digit(0, 1, 2), Digit(1, 1, 5)),), (), tables)
    found = along_one(classes, View(node, flat), 0)
    rows = rows_of(found.layout, 0).tolist()
    assert rows == [fill(7), 0, 1, 2, GARBAGE, fill(7), 3, 4, 5, GARBAGE]
    assert plain(classes, found) == found


def test_parts_of_dimensions_are_merged_and_the_rest_kept() -> None:
    classes, node = made(8, 6)
    group = (Digit(0, 1, 2), Digit(1, 3, 2))
    _, form = merged(classes, node, (group,))
    assert form == ((Digit(0, 2, 4),), (Digit(1, 1, 3),), group)
    view = in_form(classes, View(node, whole((8, 6))), (group,))
    assert view.layout.local == (
        (Digit(0, 1, 4), Digit(2, 2, 2)),
        (Digit(2, 1, 2), Digit(1, 1, 3)),
    )
    assert plain(classes, view) == View(node, whole((8, 6)))


def test_what_is_not_cut_there_is_not_merged() -> None:
    classes, node = made(6, 2)
    with pytest.raises(Unreadable):
        merged(classes, node, ((Digit(0, 2, 2), Digit(1, 1, 2)),))
