"""Values that can't be said to show something of the source, yet are known by name.

What a slice or look-up reads of a short tile may be what the source reads, once it is
masked (`lookups.py`, `patches.py`). Until then it is a class of its own.
"""

from __future__ import annotations

import itertools

from partir.ir.core import Op
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.layout import Digit, DigitLayout, View
from partir.verify.machine.machine import Machine


def unread(machine: Machine, op: Op) -> View:
    """A value that is like no other, on no two devices: only its maker is known."""
    (type_,) = op.signature.results
    shape = (*machine.sizes, *type_.shape)
    key = (op.results, len(machine.classes.terms))
    sizes = tuple(size for size in shape if size > 1)
    term = ClassTerm("unread", key, (), (), (), new=sizes, dtype=type_.dtype)
    numbers = itertools.count()
    held = [(Digit(next(numbers), 1, size),) if size > 1 else () for size in shape]
    axes = len(machine.sizes)
    layout = DigitLayout(tuple(held[axes:]), tuple(held[:axes]))
    return View(machine.classes.of(term), layout)
