"""Values that can't be said to show something of the source, yet are known by name.

What a slice or look-up reads of a short tile may be what the source reads, once it is
masked (`lookups.py`, `patches.py`). Until then it is a class of its own: of this very
op, on values that are known to be these.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.core import Op
from partir.verify.layout import Digit, DigitLayout, Unreadable, View
from partir.verify.machine import Machine
from partir.verify.terms import ClassTerm

UNREAD = "unread"


def unread(machine: Machine, op: Op, views: Sequence[View]) -> View:
    """What an op makes of rows that devices have different ones of."""
    rows = any(view.layout.tables for view in views)
    if machine.classes.source is None or not rows:
        raise Unreadable("an op along rows that devices have different ones of")
    (type_,), count = op.signature.results, len(machine.sizes)
    sizes = (*machine.sizes, *type_.shape)
    kept = [n for n, size in enumerate(sizes) if size > 1]
    term = ClassTerm(
        UNREAD,
        (op.results, tuple(views)),
        (),
        (),
        (),
        new=tuple(sizes[n] for n in kept),
        dtype=type_.dtype,
    )
    held = [
        (Digit(kept.index(n), 1, size),) if size > 1 else ()
        for n, size in enumerate(sizes)
    ]
    layout = DigitLayout(tuple(held[count:]), tuple(held[:count]))
    return View(machine.classes.of(term), layout)
