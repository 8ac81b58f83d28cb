"""Look-ups in a tiled dimension: each device gives, or takes, what its tile has.

*looked up*: device a reads ``x[i]`` where index i is in its tile, and puts nothing in
all other places; summed over devices that is ``x[i]``. *scattered*: an index that is
not in a tile is out of range there, and leaves the tile as it is. Whether indices are
shifted and masked so is seen by computing both for every index there is, and some that
are out of range.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from partir.ir.attributes import fields, ints
from partir.ir.core import Op, Signature
from partir.ir.types import tensor
from partir.verify.align import Equation
from partir.verify.classes import Classes
from partir.verify.concrete import TYPES, evaluated
from partir.verify.index_cases import function, leaf_rows, reach
from partir.verify.indices import plain_index
from partir.verify.joins import moved
from partir.verify.largest import places_in_whole
from partir.verify.layout import (
    Digit,
    DigitLayout,
    Unreadable,
    View,
    depends_on,
    repeated,
    size_of,
)
from partir.verify.machine import Machine, handler
from partir.verify.monoids import OPS, identity, monoid_of
from partir.verify.reductions import reduced_over_axes
from partir.verify.rows import GARBAGE, Rows
from partir.verify.spread import MOST, along, rows_of
from partir.verify.sums import PART, is_zero, starts_reduction
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


def _looked_in(signature: Signature, attr: str, name: str) -> int:
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
    dim = _looked_in(op.signature, "dimension_numbers", "start_index_map")
    of_class = along(value.layout, dim)
    if of_class is None or ints(op.signature.attrs["slice_sizes"])[dim] != 1:
        raise Unreadable("a look-up that is not of single rows")
    rows = rows_of(value.layout, of_class)
    axes = [a for a in range(len(machine.sizes)) if rows.shape[a] > 1]
    count = machine.term(value).dims[of_class]
    tile = rows.reshape(*rows.shape[: len(machine.sizes)], -1)
    for leaf, index in leaves(machine, op.operands[1]):
        local = machine.env[op.operands[1]]
        assert isinstance(local, View)
        if not _is_in_place(machine.classes, op.signature, index, local, mask):
            continue
        values = domain(count, machine, leaf, (mask, local), tile.shape[-1])
        here = on_devices(machine, mask, leaf, values)
        place = np.clip(on_devices(machine, local, leaf, values), 0, tile.shape[-1] - 1)
        if is_split(machine, tile, here, place, np.clip(values, 0, count - 1), axes):
            whole = gathered(machine, value, dim, of_class, count, axes)
            equation = machine.equation(op.signature)
            (made,) = machine.apply(equation, (whole, index), op.signature.results)
            if machine.classes.in_source(made.node):
                return part(machine, made, axes, (chosen, mask))
    raise Unreadable("a look-up that is not split as its tiles are")


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
    local[dim] = (Digit(of_class, 1, count),)
    for axis in axes:
        if any(digit.dim not in (of_class, -1) for digit in held[axis]):
            raise Unreadable("an axis of several dimensions")
        held[axis] = repeated(machine.sizes[axis])
    tables = tuple(item for item in value.layout.tables if item[0] != of_class)
    return View(value.node, DigitLayout(tuple(local), tuple(held), tables))


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
    return machine.by_equation(op, (value, plain_index(machine, index)))


@handler("scatter")
def _scatter(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    """What is scattered, by a monoid: into its identity, and what was there besides."""
    monoid = monoid_of(op.signature.lambdas[0]) if len(views) == 3 else None
    (type_, *_) = op.signature.results
    literal = None if monoid is None else identity(monoid, type_.dtype)
    if monoid is None or literal is None:
        return _into(machine, op, views)
    nothing = machine.number(literal, type_)
    made = _into(machine, op, (nothing, *views[1:]))
    if starts_reduction(monoid, machine.term(views[0])):
        return made
    labels = tuple(range(len(type_.shape)))
    attrs = ((), type_.dtype, type_.dtype)
    both = Equation(OPS[monoid], (labels, labels), (labels,), attrs, commutes=True)
    return machine.apply(both, (views[0], *made), (type_,))


def _into(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    if len(views) != 3:
        return machine.by_equation(op, views)
    base, index, update = views
    given = (base, plain_index(machine, index), update)
    found: Sequence[View] | Unreadable
    try:
        found = machine.by_equation(op, given)
    except Unreadable as error:
        found = error
    known = not isinstance(found, Unreadable) and machine.classes.in_source(
        found[0].node
    )
    if known or machine.classes.source is None:
        if isinstance(found, Unreadable):
            raise found
        return found
    try:
        return [_in_tiles(machine, op, base, index, update)]
    except Unreadable:
        return _raised(found)


def _raised(found: Sequence[View] | Unreadable) -> Sequence[View]:
    if isinstance(found, Unreadable):
        raise found
    return found


def _in_tiles(machine: Machine, op: Op, base: View, index: View, update: View) -> View:
    """The tile of a scatter into the whole."""
    signature = op.signature
    name = "scatter_dims_to_operand_dims"
    dim = _looked_in(signature, "scatter_dimension_numbers", name)
    rows = signature.results[0].shape[dim]
    equation = machine.equation(signature)
    _require_single_rows(signature, dim)
    for leaf, whole in leaves(machine, op.operands[1]):
        for count in _sizes(machine, leaf, update.node):
            at = _shifts(machine, index, whole, count, rows)
            if at is None or not _has_rows(machine, base, dim, at, count):
                continue
            axes = [a for a in range(len(machine.sizes)) if at.shape[a] > 1]
            into = _widened(machine, base, dim, count, axes)
            shape = list(signature.results[0].shape)
            shape[dim] = count
            types = (tensor(tuple(shape), signature.results[0].dtype),)
            (made,) = machine.apply(
                equation, (into, plain_index(machine, whole), update), types
            )
            if _has(machine, signature, made):
                wide = [1] * (len(machine.sizes) + len(shape))
                wide[: len(machine.sizes)] = at.shape
                place = [1] * len(wide)
                place[len(machine.sizes) + dim] = rows
                first = at.reshape(wide) + np.arange(rows).reshape(place)
                return moved(
                    machine, made, dim, np.where(first < count, first, GARBAGE), rows
                )
    raise Unreadable("a scatter that is not split as its tiles are")


def _has(machine: Machine, signature: Signature, made: View) -> bool:
    """Whether the source has a scatter, or what parts of it on devices add up to."""
    if machine.classes.in_source(made.node):
        return True
    monoid = monoid_of(signature.lambdas[0])
    axes = [a for a in range(len(machine.sizes)) if depends_on(made.layout, a)]
    if monoid is None or not axes:
        return False
    shape = [size_of(items) for items in made.layout.local]
    try:
        whole = reduced_over_axes(machine, monoid, made, axes, shape)
    except Unreadable:
        return False
    return machine.classes.in_source(whole.node)


def _sizes(machine: Machine, leaf: int, update: int) -> Iterator[int]:
    """How long the dimension is in the source that these are scattered into."""
    known = set[int]()
    for node in machine.classes.nodes_of("stablehlo.scatter"):
        term = machine.classes.terms[node]
        if len(term.new) != 1:
            continue
        own = plain_index(machine, View(leaf, DigitLayout((), ()))).node
        if term.refs[1].node in (leaf, own) and term.new[0] not in known:
            known.add(term.new[0])
            yield term.new[0]


def _require_single_rows(signature: Signature, dim: int) -> None:
    """Windows of several rows would reach over the edge of a tile, and be left out."""
    numbers = fields(signature.attrs["scatter_dimension_numbers"])
    gone = {
        *numbers.get("inserted_window_dims", ()),
        *numbers.get("input_batching_dims", ()),
    }
    rank = len(signature.operands[0].shape)
    window = [d for d in range(rank) if d not in gone]
    if dim in window:
        place = numbers.get("update_window_dims", ())[window.index(dim)]
        if signature.operands[2].shape[place] != 1:
            raise Unreadable("windows of several rows into tiles")


def _has_rows(machine: Machine, base: View, dim: int, at: Rows, count: int) -> bool:
    """Whether each device has the rows that it scatters into; or equal ones."""
    of_class = along(base.layout, dim)
    if of_class is None:
        return True
    rows = rows_of(base.layout, of_class)
    place, axes = len(machine.sizes) + dim, len(machine.sizes)
    first = at.reshape(*at.shape, *(1 for _ in base.layout.local))
    wide = [1] * (axes + len(base.layout.local))
    wide[place] = rows.shape[place]
    wanted = first + np.arange(rows.shape[place]).reshape(wide)
    right = bool(((rows == wanted) | (wanted >= count)).all())
    return right and machine.term(base).dims[of_class] == count


def _shifts(
    machine: Machine, index: View, whole: View, count: int, rows: int
) -> Rows | None:
    """By how much devices shift indices, if out of their tiles all are out of range."""
    leaf = whole.node
    have = leaf_rows(machine.classes, index, leaf)
    wanted_rows = leaf_rows(machine.classes, whole, leaf)
    if any((a != b).any() for a, b in zip(have, wanted_rows, strict=True)):
        return None
    values = domain(count, machine, leaf, (index,), rows)
    place = on_devices(machine, index, leaf, values).astype(np.int64)
    spread = values.reshape(-1, *(1 for _ in machine.sizes))
    inside = (place >= 0) & (place < rows)
    offset = np.where(inside, spread - place, -1).max(0)
    wanted = spread - offset
    expected = (wanted >= 0) & (wanted < rows) & (spread >= 0) & (spread < count)
    beyond = inside & (spread >= count)  # rows that are not there
    if (offset < 0).any() or ((inside & ~beyond) != expected).any():
        return None
    if (expected & (place != wanted)).any():
        return None
    for axis in range(offset.ndim):
        first = offset.take([0], axis)
        if (offset == first).all():
            offset = first
    return np.asarray(offset)


def _widened(
    machine: Machine, base: View, dim: int, count: int, axes: Sequence[int]
) -> View:
    """What is scattered into, whole along one dimension."""
    of_class = along(base.layout, dim)
    if of_class is not None:
        return gathered(machine, base, dim, of_class, count, axes)
    local = list(base.layout.local)
    local[dim] = repeated(count)
    return View(base.node, base.layout.with_local(local))
