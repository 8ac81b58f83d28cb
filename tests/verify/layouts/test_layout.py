"""Layouts: one object for each content, for as long as somebody has it."""

from __future__ import annotations

import gc
import pickle
import weakref

from partir.verify.layouts.layout import DigitLayout, transposed, whole


def test_equal_layouts_are_one_object() -> None:
    layout = whole((4, 8), axes=1)
    assert whole((4, 8), axes=1) is layout
    assert transposed(transposed(layout, (1, 0)), (1, 0)) is layout
    assert pickle.loads(pickle.dumps(layout)) is layout


def test_other_layouts_are_others() -> None:
    layout = whole((4, 8), axes=1)
    assert transposed(layout, (1, 0)) != layout
    assert whole((4, 8), axes=2) != layout
    assert DigitLayout(layout.axes, layout.local) != layout


def test_layouts_that_nobody_has_are_gone() -> None:
    layout = whole((3, 5, 7, 11))
    gone = weakref.ref(layout)
    del layout
    gc.collect()
    assert gone() is None
