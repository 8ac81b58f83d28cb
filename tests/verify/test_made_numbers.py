"""Rows of several values: numbers of what was made of them are no rows."""

from __future__ import annotations

import numpy as np
import pytest

from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import FIRST_FILLED, OPEN, RowTable, fill
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.layout import Digit, DigitLayout, View
from partir.verify.layouts.unjoined import split

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("other", [[], [fill(3)]])
def test_numbers_of_what_was_made_are_left_as_they_are(other: list[int]) -> None:
    classes = Classes()
    term = ClassTerm("joined", (), (), (), (), new=(OPEN,), dtype="f32")
    rows = np.array([FIRST_FILLED - 2 - fill(5), FIRST_FILLED - 2 - fill(6), *other])
    layout = DigitLayout(((Digit(0, 1, rows.size),),), (), ((0, RowTable(rows, OPEN)),))
    view = View(classes.of(term), layout)
    assert split(classes, view) == view
