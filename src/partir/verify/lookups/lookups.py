"""Look-ups in a tiled dimension: each device gives what its tile has.

Device a reads ``x[i]`` where index i is in its tile, and puts nothing in all other
places; summed over devices that is ``x[i]``. Whether indices are shifted and masked so
is seen by computing both for every index there is, and some that are out of range.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from partir.ir.attributes import fields, ints
from partir.ir.core import Op, Signature
from partir.ir.types import tensor
from partir.verify.classes.classes import Classes
from partir.verify.classes.monoids import sum_of
from partir.verify.classes.repetition import is_zero
from partir.verify.classes.rows import GARBAGE, Rows
from partir.verify.classes.terms import ClassTerm
from partir.verify.identities.sums import PART
from partir.verify.layouts.concrete import TYPES, evaluated, numbers
from partir.verify.layouts.layout import (
    Digit,
    DigitLayout,
    Unreadable,
    View,
    depends_on,
)
from partir.verify.layouts.merging import along_one, plain
from partir.verify.layouts.spread import MOST, rows_of, tiled_along
from partir.verify.lookups.columns import Column, columns
from partir.verify.lookups.index_cases import function, leaf_rows, reach
from partir.verify.lookups.known_places import known_lookup
from partir.verify.lookups.largest import places_in_whole
from partir.verify.lookups.told import believe, is_told, told
from partir.verify.machine.indices import plain_index
from partir.verify.machine.machine import Machine, handler
from partir.verify.machine.unread import unread
from partir.verify.machine.wholes import whole_rows, whole_view

_SORTED = "indices_are_sorted"
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


def leaves(
    machine: Machine, value: int, single: bool = False, parts: bool = False
) -> Iterator[tuple[int, View]]:
    """Values that an index is made of, which the source has, in its shape.

    Single numbers that are known are among them only if asked for, and so are others
    that the source has not, but may have as a part of something.
    """
    program, shape = machine.program, machine.program.types[value].shape
    left, seen = [value], set[int]()
    while left and len(seen) < _BACK:
        here = left.pop(0)
        known, op = machine.env.get(here), program.producers.get(here)
        seen.add(here)
        if not isinstance(known, View):
            continue
        if not single and _is_number(machine, known):
            continue
        wanted = parts or machine.classes.in_source(known.node)
        if wanted and program.types[here].shape == shape:
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
    `size`; as many at the ends of the type, where they wrap round, and in its middle,
    where an index is its own negative. Elsewhere between, comparisons come out alike.
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
    far, near = np.arange(width), np.arange(-width, width)
    middle = (int(ends.min) + int(ends.max) + 1) // 2  # where x is -x, as at an end
    return np.concatenate([int(ends.min) + far, middle + near, int(ends.max) - far])


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
    (value,) = machine.read(op.operands[:1])
    sizes = ints(op.signature.attrs["slice_sizes"])
    for column in columns(machine, op, "dimension_numbers", "start_index_map"):
        if sizes[column.dim] != 1:  # more than single rows
            continue
        held = along_one(machine.classes, value, column.dim)
        for of_class in tiled_along(held.layout, column.dim):
            made = _looked_up(machine, op, mask, column, (held, of_class))
            if made is not None:
                return part(machine, *made, (chosen, mask))
    raise Unreadable("a look-up that is not split as its tiles are")


def _looked_up(
    machine: Machine, op: Op, mask: View, column: Column, held: tuple[View, int]
) -> tuple[View, list[int]] | None:
    """The look-up in the whole, and the axes that tile it, if the source has it.

    `held` are a value, and the dimension of its class that has the column's rows.
    """
    dim, (value, of_class) = column.dim, held
    (local,) = machine.read((column.value,))
    rows = rows_of(value.layout, of_class)
    axes = [a for a in range(len(machine.sizes)) if rows.shape[a] > 1]
    tile = rows.reshape(*rows.shape[: len(machine.sizes)], -1)
    if tile.shape[-1] != op.signature.operands[0].shape[dim]:
        return None
    several, names = column.joined is not None, told(op.signature)
    if names and several:
        return None
    for leaf, index in leaves(machine, column.value, several, several):
        known = _known(machine, op.signature, (mask, local, index))
        if known is None and not _is_in_place(
            machine.classes, op.signature, index, local, mask
        ):
            continue
        if not is_told(machine, op.signature, index, names):
            continue
        for whole in whole_rows(machine, op.kind, value, of_class):
            if known is not None:
                split = _is_read_there(machine, known, tile, whole, axes)
                split = split and (not names or rises(known[2], known[1]))
            else:
                made_of, in_order = (mask, local), bool(names)
                split = is_read(machine, leaf, made_of, tile, whole, axes, in_order)
            if not split:
                continue
            read = whole_view(machine, value, dim, of_class, axes, whole)
            read = plain(machine.classes, read)
            given = (read, plain_index(machine, column.within(machine, index)))
            equation = machine.equation(of_whole(op.signature, dim, whole.size))
            (made,) = machine.apply(equation, given, op.signature.results)
            if machine.classes.in_source(made.node):
                return made, axes
    return None


def is_read(
    machine: Machine,
    leaf: int,
    made: tuple[View, View],
    tile: Rows,
    whole: Rows,
    axes: Sequence[int],
    in_order: bool = False,
) -> bool:
    """Whether each index is looked up on one device alone, and there at its row.

    `made` says where an index is looked up, and at which place; `in_order` asks that
    these rise as indices do.
    """
    mask, local = made
    length = tile.shape[-1]
    try:
        values = domain(whole.size, machine, leaf, made, length)
        here = on_devices(machine, mask, leaf, values)
        at = on_devices(machine, local, leaf, values)
    except Unreadable:
        return False
    if in_order and not rises(values, at):
        return False
    place = np.clip(at, 0, length - 1)
    wanted = whole[np.clip(values, 0, whole.size - 1)]
    return is_split(machine, tile, here, place, wanted, axes)


def _known(
    machine: Machine, signature: Signature, views: Sequence[View]
) -> list[np.ndarray] | None:
    """Mask, place and index as numbers if they are known, at each place of results."""
    found = [numbers(machine.classes, view) for view in views]
    how = fields(signature.attrs["dimension_numbers"])
    vector, axes = how.get("index_vector_dim", (0,))[0], len(machine.sizes)
    made: list[np.ndarray] = []
    for number, array in enumerate(found):
        if array is None:
            return None
        if number:
            if vector < len(signature.operands[1].shape):
                array = array.take(0, axes + vector)
            for dim in how.get("offset_dims", ()):
                array = np.expand_dims(array, axes + dim)
        missing = axes + len(signature.results[0].shape) - array.ndim
        made.append(array.reshape(*array.shape, *(1,) * missing))
    shape = np.broadcast_shapes(*(array.shape for array in made))
    shape = (*machine.sizes, *shape[axes:])
    spread = [np.broadcast_to(x, shape).reshape(*machine.sizes, -1) for x in made]
    return [np.moveaxis(x, -1, 0) for x in spread]


def _is_read_there(
    machine: Machine,
    known: Sequence[np.ndarray],
    tile: Rows,
    whole: Rows,
    axes: Sequence[int],
) -> bool:
    """Whether known indices are looked up on one device alone each, at their rows."""
    here, place, index = known
    place = np.clip(place.astype(np.int64), 0, tile.shape[-1] - 1)
    wanted = whole[np.clip(index.astype(np.int64), 0, whole.size - 1)]
    return is_split(machine, tile, here, place, wanted, axes)


def rises(index: np.ndarray, place: np.ndarray) -> bool:
    """Whether a larger index is at no smaller place, on each device."""
    index = index.reshape(-1, *(1,) * (place.ndim - index.ndim), *index.shape[1:])
    index = np.broadcast_to(index, place.shape)
    order = np.argsort(index, axis=0, kind="stable")
    ordered = np.take_along_axis(place, order, 0).astype(np.int64)
    same = np.diff(np.take_along_axis(index, order, 0), axis=0) == 0
    return bool(((np.diff(ordered, axis=0) >= 0) | same).all())


def of_whole(signature: Signature, dim: int, count: int) -> Signature:
    """The same op on an operand that is whole along one dimension."""
    first, *others = signature.operands
    shape = [count if d == dim else n for d, n in enumerate(first.shape)]
    operands = (tensor(tuple(shape), first.dtype), *others)
    return Signature.of(
        signature.kind, signature.attrs, operands, signature.results, signature.lambdas
    )


def _is_in_place(
    classes: Classes, signature: Signature, index: View, local: View, mask: View
) -> bool:
    """Whether what is looked up, and the mask, are made of the index at their place."""
    wanted = leaf_rows(classes, index, index.node)
    numbers = fields(signature.attrs["dimension_numbers"])
    vector = numbers.get("index_vector_dim", (0,))[0]
    axes, offsets = len(index.layout.axes), numbers.get("offset_dims", ())
    try:
        made = [leaf_rows(classes, view, index.node) for view in (local, mask)]
    except Unreadable:  # of something else
        return False
    pairs = [(wanted, made[0])]
    spread = []
    for rows in wanted:
        if vector < len(index.layout.local):
            rows = rows.take(0, axes + vector)
        for dim in offsets:
            rows = np.expand_dims(rows, axes + dim)
        spread.append(rows)
    pairs.append((spread, made[1]))
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
    if wanted.ndim == 1:
        wanted = wanted.reshape(-1, *(1 for _ in machine.sizes))
    right = found == wanted
    return bool(once.all() and (right | ~here.astype(bool)).all())


def part(machine: Machine, made: View, axes: Sequence[int], tag: Hashable) -> View:
    """What each device has of a sum over axes: `tag` tells the way it is split."""
    if not axes:
        return made
    if any(depends_on(made.layout, axis) for axis in axes):
        raise Unreadable("a sum over devices that each have another")
    if any((table.rows < GARBAGE).any() for _, table in made.layout.tables):
        raise Unreadable("a number in place of what devices have parts of")
    term, count = machine.term(made), len(axes)
    sizes = tuple(machine.sizes[axis] for axis in axes)
    attrs = (sum_of(term.dtype), made.node, count, tag)
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
    """At known places, rows; else as its equation says, or once it is masked."""
    value, index = views
    names = told(op.signature)
    on_devices_ = machine.classes.source is not None
    try:
        if on_devices_ and not is_told(machine, op.signature, index, names):
            raise Unreadable("indices that nobody says are in order")
        return [_read(machine, op, value, index)]
    except Unreadable:
        if not on_devices_:
            raise
        return [unread(machine, op)]
    finally:
        if not on_devices_:
            believe(machine, op.signature, index)


def _read(machine: Machine, op: Op, value: View, index: View) -> View:
    with contextlib.suppress(Unreadable):
        return known_lookup(machine, op, (value, index))
    places = places_in_whole(machine, op, value, index)
    if places is not None:
        return places
    given = (value, plain_index(machine, index))
    (made,) = machine.apply(machine.equation(op.signature), given, op.signature.results)
    return made
