"""Rows of several values put together along one dimension, by what is known of places.

Concatenation, padding, writing into a part, choosing by a mask that counts: all say for
each place of each device which operand's row is there. Rows of one class stay rows of
it, with numbers in place of others. Rows of different classes are rows of a class of
their own, *joined*; each tells which class it is a row of.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import (
    FIRST_MADE,
    GARBAGE,
    OPEN,
    Rows,
    RowTable,
    fill,
)
from partir.verify.classes.terms import ClassTerm, Dims, numbered
from partir.verify.joins.fills import forgotten, one_fill
from partir.verify.layouts.alike import written_out
from partir.verify.layouts.components import Component, components, show, tied
from partir.verify.layouts.layout import (
    DigitLayout,
    Unreadable,
    View,
    repeated,
    size_of,
)
from partir.verify.layouts.merging import along_one, forms_of_all
from partir.verify.layouts.pins import unsettled
from partir.verify.layouts.spread import (
    along,
    class_dims,
    dims_held,
    in_order,
    loose_dims,
    narrowed,
    pinned_dims,
    rebuilt,
    relaid,
    rows_of,
    shape_of,
    taken,
    tiled_along,
)
from partir.verify.layouts.unjoined import (
    JOINED,
    first_class,
    read_through,
    split,
    unpicked,
    without_dim,
)
from partir.verify.machine.machine import Machine


class JoinedPiece(NamedTuple):
    """A value, and at which places along the dimension its rows are taken."""

    view: View
    at: Rows  # over axes and local dimensions; any number where it is not chosen
    is_padding: bool = False  # one number, whatever it is a row of


def is_number(machine: Machine, view: View) -> bool:
    """Whether a value is one number at all places."""
    return not machine.term(view).dims


def moved(machine: Machine, view: View, dim: int, at: Rows, size: int) -> View:
    """A value's rows along one dimension at other places; `GARBAGE` is nowhere."""
    view = along_one(machine.classes, view, dim)
    of_class = along(view.layout, dim)
    own = OPEN if of_class is None else machine.term(view).dims[of_class]
    made = View(view.node, relaid(view.layout, dim, at, size, own))
    return view if made == view else split(machine.classes, made)


def joined(
    machine: Machine,
    pieces: Sequence[JoinedPiece],
    which: Rows,
    dim: int | None,
    shape: Sequence[int],
) -> View:
    """The rows of the piece that `which` numbers, at every place."""
    classes = machine.classes
    pieces = [
        _along_one(classes, v if fixed else unsettled(classes, v), dim, at)
        for v, at, fixed in pieces
    ]
    used = [n for n in range(len(pieces)) if (which == n).any()]
    values = [n for n in used if not are_numbers(machine, pieces[n].view)]
    if not values:
        return _numbers(machine, pieces, which, used, dim, shape)
    if (alike := _all_alike([pieces[n].view for n in used], which, dim)) is not None:
        return View(alike.node, rebuilt(alike.layout, {}, shape, {}))
    for own in _forms(classes, pieces, values):
        views = [own[n].view for n in values]
        for of_class in _possible(classes, views, which, dim):
            if all(_alike(view, views[0], of_class, dim) for view in views):
                try:
                    return _of_one_class(
                        machine, own, which, values, of_class, dim, shape
                    )
                except Unreadable:
                    continue
    apart = [piece._replace(view=unpicked(classes, piece.view)) for piece in pieces]
    found: View | Unreadable
    try:
        found = _of_several(machine, apart, which, used, dim, shape)
    except Unreadable as error:
        found = error
    if classes.source is None or _in_source(classes, found):
        return _readable(found)
    with contextlib.suppress(Unreadable):
        return _of_one_after_all(machine, pieces, which, values, dim, shape)
    return _of_several_after_all(machine, apart, which, used, dim, shape, found)


def _of_several_after_all(
    machine: Machine,
    pieces: Sequence[JoinedPiece],
    which: Rows,
    used: Sequence[int],
    dim: int | None,
    shape: Sequence[int],
    found: View | Unreadable,
) -> View:
    """Rows of several classes, some of them forgotten, or of tiles of one row."""
    classes = machine.classes
    with contextlib.suppress(Unreadable):
        made = _of_several(machine, pieces, which, used, dim, shape, forgets=True)
        if _in_source(classes, made):
            return made
    with contextlib.suppress(Unreadable):
        made = _of_several(machine, pieces, which, used, dim, shape, tiled=True)
        if isinstance(found, Unreadable) or _in_source(classes, made):
            return made
    return _readable(found)


def _readable(found: View | Unreadable) -> View:
    if isinstance(found, Unreadable):
        raise found
    return found


def _in_source(classes: Classes, view: View | Unreadable) -> bool:
    """Whether the source has these rows among those of several classes."""
    if isinstance(view, Unreadable):
        return False
    return classes.in_source(view.node) and all(
        classes.rows.in_source(table.rows) for _, table in view.layout.tables
    )


def _of_one_after_all(
    machine: Machine,
    pieces: Sequence[JoinedPiece],
    which: Rows,
    values: Sequence[int],
    dim: int | None,
    shape: Sequence[int],
) -> View:
    """Rows of one class, though the source may have them among others.

    Numbers in place of other rows are forgotten if they are others than these.
    """
    views = [pieces[n].view for n in values]
    one = len({view.node for view in views}) == 1
    of_class = _common(views, which, dim) if one else None
    if of_class is None:
        raise Unreadable("rows of several values")
    if not all(_alike(view, views[0], of_class, dim) for view in views):
        raise Unreadable("rows of several values")
    numbers = {pieces[n].view.node for n in range(len(pieces)) if n not in values}
    kept = [*pieces]
    for n in values:
        layout = forgotten(pieces[n].view.layout, of_class, {*map(fill, numbers)})
        kept[n] = pieces[n]._replace(view=View(pieces[n].view.node, layout))
    return _of_one_class(machine, kept, which, values, of_class, dim, shape)


def _possible(
    classes: Classes, views: Sequence[View], which: Rows, dim: int | None
) -> Iterator[int]:
    """Dimensions of their class that values may differ along, the likeliest first."""
    if len({view.node for view in views}) > 1:
        return
    likely = _common(views, which, dim)
    apart = unpicked(classes, views[0]).node  # counted rows are put side by side so
    known = {n for v in (views[0].node, apart) for n in classes.joined.get(v, ())}
    if likely is not None and (likely in known or None not in known):
        yield likely
    if all(view == views[0] for view in views):
        return
    for of_class in class_dims(views[0].layout):
        along_dim = [
            {} if dim is None else dims_held(v.layout.local[dim]) for v in views
        ]
        if of_class != likely and all({*held} <= {of_class} for held in along_dim):
            yield of_class


def _all_alike(views: Sequence[View], which: Rows, dim: int | None) -> View | None:
    """The value that all are, if it repeats along the dimension."""
    first = views[0]
    if (which == GARBAGE).any() or any(v.node != first.node for v in views):
        return None
    if dim is not None and any(dims_held(v.layout.local[dim]) for v in views):
        return None
    plain = {without_dim(view.layout, None, dim) for view in views}
    return first if len(plain) == 1 else None


def _forms(
    classes: Classes, pieces: Sequence[JoinedPiece], values: Sequence[int]
) -> Iterator[Sequence[JoinedPiece]]:
    """Pieces as they are, and with their class in other forms."""
    yield pieces
    given = [pieces[n].view for n in values]
    others = forms_of_all(classes, given)
    if len({view.node for view in given}) > 1:
        others = itertools.chain([[written_out(classes, v) for v in given]], others)
    for views in others:
        made = list(pieces)
        for number, view in zip(values, views, strict=True):
            made[number] = made[number]._replace(view=view)
        yield made


def are_numbers(machine: Machine, view: View) -> bool:
    """Whether a value is a number at every place, or nothing."""
    term = machine.term(view)
    if not term.dims or term.kind != JOINED or term.dims != (OPEN,):
        return not term.dims
    return not (rows_of(view.layout, 0) >= FIRST_MADE).any()


def _codes(machine: Machine, piece: JoinedPiece, dim: int | None) -> Rows:
    """Numbers, as they stand in place of rows."""
    if machine.term(piece.view).dims:
        return _rows_at(piece, 0, dim)
    return np.full((1,) * piece.at.ndim, fill(piece.view.node), np.int64)


def _along_one(classes: Classes, view: View, dim: int | None, at: Rows) -> JoinedPiece:
    view = View(view.node, in_order(view.layout))
    return JoinedPiece(view if dim is None else along_one(classes, view, dim), at)


def _common(views: Sequence[View], which: Rows, dim: int | None) -> int | None:
    """The dimension of their class that values differ along, if they may be of one."""
    found = {along(view.layout, dim) for view in views} - {None}
    if len(found) == 1:
        return found.pop()
    if found:
        return None
    pinned = set.intersection(*(pinned_dims(view.layout) for view in views))
    possible = set.intersection(*(loose_dims(view.layout, dim) for view in views))
    axes = [a for a in range(len(views[0].layout.axes)) if which.shape[a] > 1]
    tiled = {
        k for k in possible for a in axes if k in dims_held(views[0].layout.axes[a])
    }
    if tiled or (dim is None and possible):
        return min(tiled or possible)
    if len(pinned) == 1:
        return pinned.pop()
    return min(possible) if len(possible) == 1 else None


def _alike(view: View, other: View, of_class: int, dim: int | None) -> bool:
    """Whether two values differ at most in their rows of one dimension."""
    if view.node != other.node:
        return False
    return view.layout == other.layout or without_dim(
        view.layout, of_class, dim
    ) == without_dim(other.layout, of_class, dim)


def _place(layout: DigitLayout, dim: int | None) -> int | None:
    return None if dim is None else len(layout.axes) + dim


def _rows_at(piece: JoinedPiece, of_class: int | None, dim: int | None) -> Rows:
    if of_class is None:
        return np.zeros((1,) * len(shape_of(piece.view.layout)), np.int64)
    rows, place = rows_of(piece.view.layout, of_class), _place(piece.view.layout, dim)
    if place is None or of_class != along(piece.view.layout, dim):
        return rows
    return taken(rows, piece.at, place)


def _chosen(which: Rows, number: int, rows: Rows, made: Rows) -> Rows:
    return np.where(which == number, rows, made)


def _of_one_class(
    machine: Machine,
    pieces: Sequence[JoinedPiece],
    which: Rows,
    values: Sequence[int],
    of_class: int,
    dim: int | None,
    shape: Sequence[int],
) -> View:
    first = pieces[values[0]].view
    if machine.classes.source is None:
        machine.classes.joined.setdefault(first.node, set()).add(of_class)
    made: Rows = np.full((1,) * which.ndim, GARBAGE, np.int64)
    for number, piece in enumerate(pieces):
        if number in values:
            rows = _rows_at(piece, of_class, dim)
        elif (which == number).any():
            rows = _codes(machine, piece, dim)
        else:
            continue
        made = _chosen(which, number, rows, made)
    sizes = {of_class: machine.term(first).dims[of_class]}
    layout = rebuilt(first.layout, {of_class: narrowed(made)}, shape, sizes)
    return split(machine.classes, View(first.node, one_fill(layout)))


def _numbers(
    machine: Machine,
    pieces: Sequence[JoinedPiece],
    which: Rows,
    used: Sequence[int],
    dim: int | None,
    shape: Sequence[int],
) -> View:
    """Numbers alone: one of them everywhere, or rows of no class but themselves."""
    nodes = {pieces[n].view.node for n in used}
    axes = len(pieces[0].view.layout.axes)
    local = tuple(repeated(size) for size in shape[axes:])
    alone = tuple(repeated(size) for size in shape[:axes])
    plain = DigitLayout(local, alone)
    only = len(nodes) == 1 and is_number(machine, pieces[used[0]].view)
    if only and not (which == GARBAGE).any():
        return View(nodes.pop(), plain)
    made: Rows = np.full((1,) * which.ndim, GARBAGE, np.int64)
    for number in used:
        made = _chosen(which, number, _codes(machine, pieces[number], dim), made)
    node = _class(machine, (), machine.term(pieces[used[0]].view).dtype)
    return View(node, rebuilt(plain, {0: narrowed(made)}, shape, {0: OPEN}))


def _class(machine: Machine, sizes: Sequence[int], dtype: str) -> int:
    term = ClassTerm(JOINED, (), (), (), (), new=(OPEN, *sizes), dtype=dtype)
    return machine.classes.of(term)


def _of_several(
    machine: Machine,
    pieces: Sequence[JoinedPiece],
    which: Rows,
    used: Sequence[int],
    dim: int | None,
    shape: Sequence[int],
    forgets: bool = False,
    tiled: bool = False,
) -> View:
    """Rows of different classes: in what order these come does not matter.

    Of rows that differ along another dimension nothing is known, if it `forgets` them.
    """
    used = sorted(
        used, key=lambda number: first_class(machine.classes, pieces[number].view)
    )
    chosen = [pieces[n] for n in used]
    of_class = [_along(machine, piece.view, dim, tiled) for piece in chosen]
    if machine.classes.source is None:
        for piece, own in zip(chosen, of_class, strict=True):
            machine.classes.joined.setdefault(piece.view.node, set()).add(own)
    rank = len(shape) - len(chosen[0].view.layout.axes)
    stripped = [
        _spread(without_dim(_wide(machine, p.view, shape), k, dim), dim, shape)
        for p, k in zip(chosen, of_class, strict=True)
    ]
    aligned = machine.aligned(stripped, rank, tuple(range(rank)))
    parts = components(stripped, aligned.refs, aligned.use)
    refs, use = tied(aligned.refs, aligned.use, parts, [p.size for p in parts])
    made = numbered(refs, use)
    where, tables = dict(made.where()), dict[int, RowTable]()
    for part in parts:
        rows = _other_rows(machine, part, chosen, forgets)
        show(part, rows, part.size, aligned.use, where, tables)
    where = {v: (d + 1, stride) for v, (d, stride) in where.items()}
    later = {d + 1: table for d, table in tables.items()}
    found: Rows = np.full((1,) * which.ndim, GARBAGE, np.int64)
    for number, piece, k, dims in zip(used, chosen, of_class, made.dims, strict=True):
        rows = _rows_at(piece, k, dim)
        codes = _of_class(machine, piece.view, k, dims, rows)
        found = _chosen(which, number, codes, found)
    sizes = tuple(made.sizes[v] for v in made.free)
    node = _class(machine, sizes, machine.term(chosen[0].view).dtype)
    layout, _ = aligned.result(0, shape[-rank:] if rank else (), where, 0, later)
    return View(node, rebuilt(layout, {0: narrowed(found)}, shape, {0: OPEN}))


def _other_rows(
    machine: Machine, part: Component, pieces: Sequence[JoinedPiece], forgets: bool
) -> Rows:
    """Rows of values side by side, along another dimension than that.

    A number in place of a row of one dimension is there at every row of all others: of
    several values, there is no row of one of them to say so. All of them must.
    """
    columns = part.columns[:, 0]
    garbage = (columns == GARBAGE).any(-1)
    codes = np.where(garbage, 0, columns.min(-1, initial=0))
    agreed = np.ones(codes.shape, bool)
    for number, piece in enumerate(pieces):
        own = [n for n, (ref, _) in enumerate(part.mentions) if ref == number]
        agreed &= (columns[:, own] == codes[:, None]).any(-1) | (
            is_number(machine, piece.view) & (codes == fill(piece.view.node))
        )
    agreed &= ((columns >= 0) | (columns == codes[:, None])).all(-1)
    if (~agreed & (codes < 0)).any() and not forgets:
        raise Unreadable("numbers in place of rows, of some of several values")
    rows = columns[:, 0]
    if len(part.mentions) > 1:
        rows = machine.classes.rows.tuples(np.where(columns < 0, GARBAGE, columns))
        if (rows >= FIRST_MADE).any() and not forgets:
            raise Unreadable("values side by side whose other rows differ")
        rows = np.where(rows >= FIRST_MADE, GARBAGE, rows)
    return np.where(codes < 0, np.where(agreed, codes, GARBAGE), rows)


def _along(
    machine: Machine, view: View, dim: int | None, tiled: bool = False
) -> int | None:
    """The dimension of a class that its rows are of; of numbers, that of themselves.

    Of tiles of one row, the one that is `tiled`, if that is asked for.
    """
    if is_number(machine, view):
        return None
    if are_numbers(machine, view):
        return 0
    found, pinned = along(view.layout, dim), pinned_dims(view.layout)
    joined_ = machine.term(view).kind == JOINED
    if found is None and joined_ and 0 in loose_dims(view.layout, dim):
        return 0
    if found is None and len(pinned) == 1:
        return pinned.pop()
    if found is None and dim is not None and tiled:
        possible = tiled_along(view.layout, dim)
        return possible[0] if len(possible) == 1 else None
    return found


def _wide(machine: Machine, view: View, shape: Sequence[int]) -> DigitLayout:
    """A layout, that of a number in the shape of all."""
    if not is_number(machine, view):
        return view.layout
    local = shape[len(view.layout.axes) :]
    return view.layout.with_local(repeated(size) for size in local)


def _spread(layout: DigitLayout, dim: int | None, shape: Sequence[int]) -> DigitLayout:
    """Repeated along the dimension that is joined, at its new size.

    So it is along others that only the places to take rows from run along.
    """
    local = list(layout.local)
    for number, size in enumerate(shape[len(layout.axes) :]):
        if number == dim or (size_of(local[number]) == 1 and size > 1):
            local[number] = repeated(size)
    return layout.with_local(local)


def _of_class(
    machine: Machine, view: View, of_class: int | None, dims: Dims, rows: Rows
) -> Rows:
    """Rows of the joined class: which class they are of, and where its others are."""
    if is_number(machine, view):
        return np.full_like(rows, fill(view.node))
    if machine.term(view).kind == JOINED and of_class == 0:
        inner = read_through(machine.classes, dims, rows)
        if inner is not None:
            return inner
    own = -1 if of_class is None else of_class
    flat = [x for d in dims for x in (*d, -4)]
    return machine.classes.rows.of_class([view.node, own, *flat], rows)
