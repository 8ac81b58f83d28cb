"""Dimensions of a class merged into one, where a local dimension counts several.

A reshape may leave a local dimension whose digits are those of several dimensions of
the class. What moves rows along it (slices, shifts, windows, tiles that other digits
count) says nothing of each dimension by itself. The class is read in another form then:
*merged*, with one dimension that counts them all, in the order of the digits. Where the
rows of a merged dimension are digits again, the class is read as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import FIRST_MADE, GARBAGE, Rows
from partir.verify.classes.terms import ClassTerm, Ref
from partir.verify.layouts.layout import (
    REPEATED,
    Digit,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    digits,
    split_off,
)
from partir.verify.layouts.spread import (
    dims_held,
    narrowed,
    rebuilt,
    rows_of,
    shape_of,
)

MERGED = "merged"
Form = tuple[Digits, ...]  # dimensions of a merged class, as digits of the class


def merged(classes: Classes, node: int, groups: Sequence[Digits]) -> tuple[int, Form]:
    """The class in which each group of digits is one dimension, and its form."""
    sizes = classes.terms[node].dims
    form = (*_others(sizes, groups), *sorted(groups))
    term = classes.terms[node]
    own = tuple((n,) for n in range(len(sizes)))
    new = tuple(_size(items, sizes) for items in form)
    made = ClassTerm(
        MERGED, form, (Ref(node, own),), tuple(sizes), (), new=new, dtype=term.dtype
    )
    if classes.source is None:
        known = classes.forms.setdefault(node, [])
        if groups not in known:
            known.append(tuple(groups))
    return classes.of(made), form


def _size(items: Digits, sizes: Sequence[int]) -> int:
    """How many rows a dimension has; of open ones and bags, what they say."""
    if len(items) == 1 and sizes[items[0].dim] <= 0:
        return sizes[items[0].dim]
    return math.prod(digit.size for digit in items)


def _others(sizes: Sequence[int], groups: Sequence[Digits]) -> Iterator[Digits]:
    """What is in no group: of each dimension, the digits between those that are."""
    for dim, size in enumerate(sizes):
        taken = sorted((d.stride, d.size) for g in groups for d in g if d.dim == dim)
        if not taken:
            yield (Digit(dim, 1, size),)
            continue
        if size <= 0:
            raise Unreadable("rows that are made, merged with others")
        edges, runs = 1, []
        for stride, count in [*taken, (size, 1)]:
            if stride % edges:
                raise Unreadable("dimensions that are merged at other places")
            if stride > edges:
                runs.append(Digit(dim, edges, stride // edges))
            edges = stride * count
        yield from ((run,) for run in reversed(runs))


def base_of(classes: Classes, node: int) -> tuple[int, Form]:
    """A class that is not merged, and the form in which this one reads it."""
    term = classes.terms[node]
    if term.kind == MERGED:
        return term.refs[0].node, term.attrs
    return node, tuple((Digit(dim, 1, size),) for dim, size in enumerate(term.dims))


def along_one(classes: Classes, view: View, dim: int) -> View:
    """A view whose local dimension counts one dimension of the class.

    Merged if need be, in the form that the source has, if it has one that does.
    """
    if len(dims_held(view.layout.local[dim])) < 2:
        return view
    base, form = base_of(classes, view.node)
    before = tuple(items for items in form if len(items) > 1)
    for groups in classes.forms.get(base, ()):
        if {*before} <= {*groups}:
            try:
                found = in_form(classes, view, groups)
            except Unreadable:
                continue
            if len(dims_held(found.layout.local[dim])) < 2:
                return found
    own = [d for digit in _group(classes, view, dim) for d in _in_base(digit, form)]
    return in_form(classes, view, (*before, digits(own)))


def forms_of_all(classes: Classes, views: Sequence[View]) -> Iterator[list[View]]:
    """Values of one class in common forms: what they have, and what the source has."""
    bases = [base_of(classes, view.node) for view in views]
    nodes = {base for base, _ in bases}
    if len(nodes) > 1:
        return
    held = {items for _, form in bases for items in form if len(items) > 1}
    for groups in (tuple(sorted(held)), *classes.forms.get(nodes.pop(), ())):
        if groups and held <= {*groups}:
            try:
                yield [in_form(classes, view, groups) for view in views]
            except Unreadable:
                continue


def _in_base(digit: Digit, form: Form) -> Digits:
    """A digit of a merged class's dimension, as digits of the class."""
    items = form[digit.dim]
    if len(items) == 1:
        (own,) = items
        return (Digit(own.dim, digit.stride * own.stride, digit.size),)
    _, rest = split_off(items, digit.stride)
    return tuple(split_off(rest, digit.size)[0])


def _group(classes: Classes, view: View, dim: int) -> Digits:
    """The digits of a local dimension, with what axes hold in front of them."""
    sizes = classes.terms[view.node].dims
    tabled = {d for d, _ in view.layout.tables}
    found: list[Digit] = []
    for digit in view.layout.local[dim]:
        if digit.dim == REPEATED:
            raise Unreadable("rows that repeat, merged with others")
        if digit.dim in tabled:
            whole = Digit(digit.dim, 1, sizes[digit.dim])
            found += [] if whole in found else [whole]
            continue
        found.append(_extended(digit, view.layout.axes))
    return digits(found)


def _extended(digit: Digit, axes: Sequence[Digits]) -> Digit:
    for items in axes:
        for other in items:
            if other.dim == digit.dim and other.stride == digit.stride * digit.size:
                longer = digit._replace(size=digit.size * other.size)
                return _extended(longer, axes)
    return digit


def in_form(classes: Classes, view: View, groups: Sequence[Digits]) -> View:
    """A view of a class, or of a merged one, as one of the class in another form."""
    base, before = base_of(classes, view.node)
    node, after = merged(classes, base, groups)
    form = tuple(_over(items, before) for items in after)
    sizes = classes.terms[view.node].dims
    whole = {(Digit(dim, 1, size),) for dim, size in enumerate(sizes)}
    involved = {d.dim for items in form if items not in whole for d in items}
    try:
        layout = _by_digits(view.layout, form, involved)
    except Unreadable:
        layout = _by_rows(classes, view, form, involved)
    return View(node, layout)


def _over(items: Digits, before: Form) -> Digits:
    """Digits of a class as digits of a merged one."""
    for dim, held in enumerate(before):
        if held == items:
            return (Digit(dim, 1, math.prod(d.size for d in held)),)
    return tuple(_single(digit, before) for digit in items)


def _single(digit: Digit, before: Form) -> Digit:
    for dim, held in enumerate(before):
        if len(held) == 1 and held[0].dim == digit.dim:
            (own,) = held
            if own.size <= 0:
                return Digit(dim, 1, own.size)
            inside = digit.stride * digit.size <= own.stride * own.size
            if digit.stride >= own.stride and inside and digit.stride % own.stride == 0:
                return Digit(dim, digit.stride // own.stride, digit.size)
    raise Unreadable("dimensions that are merged with others already")


def _by_digits(layout: DigitLayout, form: Form, involved: set[int]) -> DigitLayout:
    if any(dim in involved for dim, _ in layout.tables):
        raise Unreadable("rows that digits can't count")
    places = _places(form)

    def moved(items: Digits) -> Digits:
        return digits(d for digit in items for d in _cut(digit, places))

    tables = tuple(sorted((places[d][0][1], t) for d, t in layout.tables))
    local, axes = tuple(map(moved, layout.local)), tuple(map(moved, layout.axes))
    return DigitLayout(local, axes, tables)


def _places(form: Form) -> dict[int, list[tuple[Digit, int, int]]]:
    """For each dimension its digits in a form: in which dimension, and the stride."""
    places: dict[int, list[tuple[Digit, int, int]]] = {}
    for new, items in enumerate(form):
        stride = 1
        for digit in reversed(items):
            places.setdefault(digit.dim, []).append((digit, new, stride))
            stride *= digit.size
    return places


def _cut(
    digit: Digit, places: dict[int, list[tuple[Digit, int, int]]]
) -> Iterator[Digit]:
    """A digit as digits of the form, major first."""
    if digit.dim == REPEATED:
        yield digit
        return
    own = places[digit.dim]
    if len(own) == 1 and own[0][0].stride == 1:  # a dimension as it is, or open rows
        _, new, times = own[0]
        yield Digit(new, digit.stride * times, digit.size)
        return
    end = digit.stride * digit.size
    for part, new, times in sorted(own, reverse=True):
        low = max(part.stride, digit.stride)
        high = min(part.stride * part.size, end)
        if low >= high:
            continue
        if low % part.stride or high % low:
            raise Unreadable("dimensions that are merged at other places")
        yield Digit(new, low // part.stride * times, high // low)


def _by_rows(
    classes: Classes, view: View, form: Form, involved: set[int]
) -> DigitLayout:
    """Row by row, where tables say which rows are there."""
    layout, sizes = view.layout, classes.terms[view.node].dims
    rows = {dim: rows_of(layout, dim) for dim in involved}
    renamed: dict[int, int] = {}
    changed: dict[int, Rows] = {}
    of_class: dict[int, int] = {}
    for new, items in enumerate(form):
        if items[0].dim not in involved:
            renamed[items[0].dim] = new
            continue
        changed[new + len(sizes)] = narrowed(_merged_rows(items, rows))
        of_class[new + len(sizes)] = _size(items, sizes)
    blank = {dim: np.zeros((1,) * len(shape_of(layout)), np.int64) for dim in involved}
    kept = rebuilt(layout, blank, shape_of(layout), dict.fromkeys(involved, 1))
    kept = DigitLayout(
        kept.local,
        kept.axes,
        tuple(item for item in kept.tables if item[0] not in involved),
    )
    made = rebuilt(kept, changed, shape_of(layout), of_class)
    names = {**renamed, **{dim: dim - len(sizes) for dim in changed}}
    return _renamed(made, names)


def _merged_rows(items: Digits, rows: dict[int, Rows]) -> Rows:
    """Rows of a merged dimension; numbers in place of rows stay, so does garbage."""
    shape = np.broadcast_shapes(*(rows[digit.dim].shape for digit in items))
    made = np.zeros(shape, np.int64)
    for digit in items:
        own = np.broadcast_to(rows[digit.dim], shape)
        if (own >= FIRST_MADE).any():
            raise Unreadable("rows that are made, merged with others")
        made = made * digit.size + own // digit.stride % digit.size
    for digit in items:
        own = np.broadcast_to(rows[digit.dim], shape)
        fills = own < GARBAGE
        if (fills & (made < 0) & (made != own)).any():
            raise Unreadable("several numbers around a value")
        made = np.where(fills, own, made)
    for digit in items:
        made = np.where(rows[digit.dim] == GARBAGE, GARBAGE, made)
    return made


def _renamed(layout: DigitLayout, names: dict[int, int]) -> DigitLayout:
    def moved(items: Digits) -> Digits:
        return tuple(
            d if d.dim == REPEATED else d._replace(dim=names[d.dim]) for d in items
        )

    tables = tuple(sorted((names[d], t) for d, t in layout.tables))
    return DigitLayout(
        tuple(map(moved, layout.local)), tuple(map(moved, layout.axes)), tables
    )


def plain(classes: Classes, view: View) -> View:
    """A view of a merged class, without merged dimensions whose rows digits count."""
    term = classes.terms[view.node]
    if term.kind != MERGED:
        return view
    tables = dict(view.layout.tables)
    groups = [(dim, items) for dim, items in enumerate(term.attrs) if len(items) > 1]
    left = tuple(items for dim, items in groups if dim in tables)
    if len(left) == len(groups):
        return view
    (ref,) = term.refs
    node, after = base_of(classes, ref.node)
    if left:
        node, after = merged(classes, ref.node, left)
    try:
        return View(node, _unmerged(view.layout, term.attrs, after))
    except Unreadable:
        return view


def _unmerged(layout: DigitLayout, before: Form, after: Form) -> DigitLayout:
    names = {dim: after.index(held) for dim, held in enumerate(before) if held in after}
    places = _places(after)

    def looked_up(digit: Digit) -> Iterator[Digit]:
        if digit.dim == REPEATED:
            yield digit
        elif digit.dim in names:
            yield digit._replace(dim=names[digit.dim])
        else:
            for own in _in_base(digit, before):
                yield from _cut(own, places)

    def moved(items: Digits) -> Digits:
        return digits(d for digit in items for d in looked_up(digit))

    if any(dim not in names for dim, _ in layout.tables):
        raise Unreadable("a table of a part of a dimension")
    local, axes = tuple(map(moved, layout.local)), tuple(map(moved, layout.axes))
    tables = tuple(sorted((names[dim], table) for dim, table in layout.tables))
    return DigitLayout(local, axes, tables)
