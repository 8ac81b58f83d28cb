"""`named`: a value of the source that tables describe, as a tensor with a name.

Rows that are shifted or padded are known place by place, and several dimensions of the
value may count one of their class. An op that works along one of these as a whole (a
slice at a computed place, a sort) can't be read then. The value itself is a tensor all
the same: the op reads *that*, dimension by dimension. What devices hold is a tile of it
if it shows, at every place of every device, what the tensor shows there.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

from partir.verify.classes.classes import Classes
from partir.verify.classes.terms import ClassTerm, Ref
from partir.verify.layouts.layout import (
    Digit,
    DigitLayout,
    Unreadable,
    View,
    repeated,
    size_of,
)
from partir.verify.layouts.spread import has_garbage, same
from partir.verify.layouts.tiles import is_even, possible, shown, shown_in_tiles, tiled

NAMED = "named"


def by_name(
    classes: Classes, sizes: tuple[int, ...], views: Sequence[View]
) -> list[View] | None:
    """Operands with tables as tensors with a name; None if there are no such.

    The source names them; devices hold tiles of what it named.
    """
    names = classes.names
    if classes.source is None and not sizes:
        made = [_named(classes, v) if v.layout.tables else v for v in views]
    elif any(view.node in names and view.layout.tables for view in views):
        made = [_tile(names.get(v.node, ()), v, sizes) for v in views]
    else:
        return None
    return None if made == [*views] else made


def _named(classes: Classes, view: View) -> View:
    """A value of the source, which is the same everywhere, as what it is."""
    if has_garbage(view.layout):
        return view
    shape = [size_of(items) for items in view.layout.local]
    kept = tuple(size for size in shape if size > 1)
    dtype = classes.terms[view.node].dtype
    refs = (Ref(view.node, ()),)
    term = ClassTerm(NAMED, view.layout, refs, (), (), new=kept, dtype=dtype)
    numbers = itertools.count()
    local = tuple(
        (Digit(next(numbers), 1, size),) if size > 1 else repeated(size)
        for size in shape
    )
    made = View(classes.of(term), DigitLayout(local, ()))
    known = classes.names.setdefault(view.node, [])
    if (view, made) not in known:
        known.append((view, made))
    return made


def _tile(
    known: Sequence[tuple[View, View]], view: View, sizes: tuple[int, ...]
) -> View:
    """The tile of a named tensor that a value is, or the value as it is."""
    local = [size_of(items) for items in view.layout.local]
    for whole, name in known:
        shape = tuple(size_of(items) for items in whole.layout.local)
        if len(shape) != len(local):
            continue
        for tiling in possible(shape, local, sizes):
            if not is_even(shape, tiling, sizes):
                break  # even ones come first
            with contextlib.suppress(Unreadable):
                if same(view, shown_in_tiles(whole, shape, tiling, sizes)):
                    return shown(tiled(shape, tiling, sizes), name)
    return view
