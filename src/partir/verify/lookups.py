"""Look-ups in a tiled dimension: each device gives what its tile has.

Device a reads ``x[i]`` where index i is in its tile, and puts nothing in all other
places; summed over devices that is ``x[i]``. Whether indices are shifted and masked so
is seen by computing both for every index there is, and some that are out of range.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from partir.ir.attributes import fields, ints
from partir.ir.core import Op, Signature
from partir.verify.classes import Classes
from partir.verify.concrete import TYPES, evaluated
from partir.verify.index_cases import function, leaf_rows, reach
from partir.verify.indices import plain_index
from partir.verify.largest import places_in_whole
from partir.verify.layout import (
    Digit,
    DigitLayout,
    Unreadable,
    View,
    repeated,
)
from partir.verify.machine import Machine, handler
from partir.verify.rows import Rows, RowTable
from partir.verify.spread import MOST, along, rows_of
from partir.verify.sums import PART, is_zero
from partir.verify.terms import ClassTerm

_BACK = 16  # ops between indices and what they are made of


def on_devices(machine: Machine, view: View, leaf: int, values: Rows) -> np.ndarray:
    """A value on each device, for each value that its index has."""
    found = function(machine.classes, view.node, leaf, values)
    if found is None:
        raise Unreadable("an index that is computed in an unknown way")
    index = []
    for dim in range(found.ndim - 1):
        if found.shape[dim + 1] == 1:
            index.append(np.zeros((1,) * len(machine.sizes), np.int64))
            continue
        rows = rows_of(view.layout, dim)
        if rows.size > np.prod(rows.shape[: len(machine.sizes)]):
            raise Unreadable("an index that is shifted otherwise in every place")
        if (rows < 0).any() or (rows >= found.shape[dim + 1]).any():
            raise Unreadable("an index that is shifted by what is not known")
        index.append(rows.reshape(rows.shape[: len(machine.sizes)]))
    if not index:
        return np.broadcast_to(
            found.reshape(-1, *(1 for _ in machine.sizes)),
            (len(values), *machine.sizes),
        )
    shape = np.broadcast_shapes(*(i.shape for i in index))
    places: list[Any] = [np.broadcast_to(i, shape) for i in index]
    picked = found[(slice(None), *places)]
    return np.broadcast_to(picked, (len(values), *machine.sizes))


def leaves(machine: Machine, value: int) -> Iterator[tuple[int, View]]:
    """Values that an index is made of, which the source has, in its shape."""
    program, shape = machine.program, machine.program.types[value].shape
    left, seen = [value], set[int]()
    while left and len(seen) < _BACK:
        here = left.pop(0)
        known, op = machine.env.get(here), program.producers.get(here)
        seen.add(here)
        if not isinstance(known, View) or _is_number(machine, known):
            continue
        if machine.classes.in_source(known.node) and program.types[here].shape == shape:
            yield known.node, known
        if op is not None:
            left += [v for v in program.ops[op].operands if v not in seen]


def _is_number(machine: Machine, view: View) -> bool:
    """Whether a value is one number that is known."""
    known = evaluated(machine.classes, view.node)
    return known is not None and not machine.term(view).dims


def domain(
    count: int, machine: Machine, leaf: int, made: Sequence[View], size: int
) -> Rows:
    """Indices such that what is made of all of them is known by these.

    Every index of a dimension of `count` rows; all that something is compared with, or
    `size`; and as many at the ends of the type, where they wrap round. From there to
    the ends, and elsewhere between, all comparisons come out alike.
    """
    edge = count
    for view in made:
        found = reach(machine.classes, view.node, leaf)
        edge = max(edge, found.edge, size - found.low, found.high + size)
    width = edge + 3
    if 4 * width * int(np.prod(machine.sizes)) > MOST:
        raise Unreadable("a dimension of too many places to look up in")
    dtype = TYPES.get(machine.classes.terms[leaf].dtype, np.bool_)
    if dtype in (np.bool_, np.uint64):
        raise Unreadable("indices that are no signed integers")
    ends = np.iinfo(dtype)
    if ends.max - ends.min <= 4 * width:
        return np.arange(ends.min, ends.max + 1)
    far = np.arange(width)
    near = far if ends.min == 0 else np.arange(-width, width)
    return np.concatenate([int(ends.min) + far, near, int(ends.max) - far])


def looked_in(signature: Signature, attr: str, name: str) -> int:
    """The one dimension that indices of one number address."""
    addressed = fields(signature.attrs[attr]).get(name, ())
    if len(addressed) != 1:
        raise Unreadable("indices of several dimensions at once")
    return addressed[0]


def masked_lookup(machine: Machine, views: tuple[View, ...], read: int) -> View:
    """``select(is here, gather(tile, index), 0)``: a part of a look-up in the whole.

    `read` is the value that is chosen where the index is here.
    """
    mask, chosen, other = views
    maker = machine.program.producers.get(read)
    op = None if maker is None else machine.program.ops[maker]
    if op is None or op.signature.name != "gather":
        raise Unreadable("a choice that is not known")
    if not is_zero(machine.classes, other.node):
        raise Unreadable("a look-up with another number than zero beside it")
    value, _ = machine.read(op.operands)
    dim = looked_in(op.signature, "dimension_numbers", "start_index_map")
    of_class = along(value.layout, dim)
    if of_class is None or ints(op.signature.attrs["slice_sizes"])[dim] != 1:
        raise Unreadable("a look-up that is not of single rows")
    for count in _lengths(machine, value, of_class):
        for _, index in leaves(machine, op.operands[1]):
            made = _looked_up(machine, op, value, (mask, index), dim, count)
            if made is not None:
                return part(machine, *made, (chosen, mask))
    raise Unreadable("a look-up that is not split as its tiles are")


def _lengths(machine: Machine, value: View, of_class: int) -> Iterator[int]:
    """How many rows the source looks up in: all of a dimension, or those to an end."""
    size = machine.term(value).dims[of_class]
    yield size
    known = {size}
    for node in machine.classes.nodes_of("stablehlo.gather"):
        term = machine.classes.terms[node]
        if term.refs[0].node != value.node:
            continue
        for name, held in (item for items in term.specials for item in _named(items)):
            rows = np.frombuffer(held, np.int64) if name == "rows" else None
            if rows is not None and np.array_equal(rows, np.arange(rows.size)):
                yield from {rows.size} - known
                known.add(rows.size)


def _named(items: Sequence[Any]) -> list[tuple[str, Any]]:
    return [item for item in items if isinstance(item, tuple)]


def _looked_up(
    machine: Machine,
    op: Op,
    value: View,
    made_of: tuple[View, View],
    dim: int,
    count: int,
) -> tuple[View, list[int]] | None:
    """The look-up in the whole of a value, if devices split it; over which axes."""
    mask, index = made_of
    of_class, local = along(value.layout, dim), machine.env[op.operands[1]]
    assert isinstance(local, View)
    assert of_class is not None
    rows, first = rows_of(value.layout, of_class), len(machine.sizes)
    if rows.size != np.prod(rows.shape[:first]) * rows.shape[first + dim]:
        raise Unreadable("a look-up in a part of a dimension")
    if not _is_in_place(machine.classes, op.signature, index, local, mask):
        return None
    axes = [a for a in range(first) if rows.shape[a] > 1]
    tile = rows.reshape(*rows.shape[:first], -1)
    values = domain(count, machine, index.node, (mask, local), tile.shape[-1])
    here = on_devices(machine, mask, index.node, values)
    place = on_devices(machine, local, index.node, values)
    place = np.clip(place, 0, tile.shape[-1] - 1)
    if not is_split(machine, tile, here, place, np.clip(values, 0, count - 1), axes):
        return None
    whole = gathered(machine, value, dim, of_class, count, axes)
    equation = machine.equation(op.signature)
    (made,) = machine.apply(equation, (whole, index), op.signature.results)
    return (made, axes) if machine.classes.in_source(made.node) else None


def _is_in_place(
    classes: Classes, signature: Signature, index: View, local: View, mask: View
) -> bool:
    """Whether what is looked up, and the mask, are made of the index at their place."""
    wanted = leaf_rows(classes, index, index.node)
    numbers = fields(signature.attrs["dimension_numbers"])
    vector = numbers.get("index_vector_dim", (0,))[0]
    axes, offsets = len(index.layout.axes), numbers.get("offset_dims", ())
    pairs = [(wanted, leaf_rows(classes, local, index.node))]
    spread = []
    for rows in wanted:
        if vector < len(index.layout.local):
            rows = rows.take(0, axes + vector)
        for dim in offsets:
            rows = np.expand_dims(rows, axes + dim)
        spread.append(rows)
    pairs.append((spread, leaf_rows(classes, mask, index.node)))
    return all(
        bool((one == other).all())
        for have, want in pairs
        for one, other in zip(have, want, strict=True)
    )


def is_split(
    machine: Machine,
    tile: Rows,
    here: np.ndarray,
    place: np.ndarray,
    wanted: Rows,
    axes: Sequence[int],
) -> bool:
    """Whether each index is looked up on one device alone, and there at its row."""
    once = here.astype(np.int64).sum(tuple(axis + 1 for axis in axes)) == 1
    full = np.broadcast_to(tile, (*machine.sizes, tile.shape[-1]))
    found = np.take_along_axis(
        np.broadcast_to(full, (len(wanted), *full.shape)),
        place[..., None].astype(np.int64),
        -1,
    )[..., 0]
    right = found == wanted.reshape(-1, *(1 for _ in machine.sizes))
    return bool(once.all() and (right | ~here.astype(bool)).all())


def gathered(
    machine: Machine,
    value: View,
    dim: int,
    of_class: int,
    count: int,
    axes: Sequence[int],
) -> View:
    """A value whole along one dimension."""
    local, held = list(value.layout.local), list(value.layout.axes)
    local[dim] = (Digit(of_class, 1, count),) if count > 1 else ()
    for axis in axes:
        if any(digit.dim not in (of_class, -1) for digit in held[axis]):
            raise Unreadable("an axis of several dimensions")
        held[axis] = repeated(machine.sizes[axis])
    tables = {d: table for d, table in value.layout.tables if d != of_class}
    size = machine.term(value).dims[of_class]
    if count != size:
        tables[of_class] = RowTable(np.arange(count), size)
    kept = tuple(sorted(tables.items()))
    return View(value.node, DigitLayout(tuple(local), tuple(held), kept))


def part(machine: Machine, made: View, axes: Sequence[int], tag: Hashable) -> View:
    """What each device has of a sum over axes: `tag` tells the way it is split."""
    term, count = machine.term(made), len(axes)
    sizes = tuple(machine.sizes[axis] for axis in axes)
    attrs = ("sum", made.node, count, tag)
    part = ClassTerm(
        PART, attrs, (), (), (), new=(*sizes, *term.dims), dtype=term.dtype
    )

    def later(items: tuple[Digit, ...]) -> tuple[Digit, ...]:
        return tuple(d._replace(dim=d.dim + count) if d.dim >= 0 else d for d in items)

    held = [later(items) for items in made.layout.axes]
    for number, axis in enumerate(axes):
        held[axis] = (Digit(number, 1, machine.sizes[axis]),)
    tables = tuple((d + count, table) for d, table in made.layout.tables)
    local = tuple(map(later, made.layout.local))
    return View(machine.classes.of(part), DigitLayout(local, tuple(held), tables))


@handler("gather")
def _gather(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    value, index = views
    places = places_in_whole(machine, op, value, index)
    if places is not None:
        return [places]
    try:
        return machine.by_equation(op, (value, plain_index(machine, index)))
    except Unreadable:
        if machine.classes.source is None:
            raise
        return [_unread(machine, op)]


def _unread(machine: Machine, op: Op) -> View:
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
