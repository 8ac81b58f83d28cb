"""Slices, look-ups and updates at places that may be unknown."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from partir.ir.attributes import fields, ints
from partir.ir.core import Signature
from partir.verify.classes.monoids import monoid_of
from partir.verify.elements.cases import FALSE, GARBAGE, TRUE, Cases, Scalar
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.places import NOWHERE, PLACES, clamped, within
from partir.verify.elements.rings import Integers, Ring, Truths, ring_of
from partir.verify.layouts.layout import Unreadable

_PROMISES = ("indices_are_sorted", "unique_indices")
Elements = list[Scalar]
Index = tuple[int, ...]


def _integers(dtype: str) -> Integers:
    ring = ring_of(dtype)
    if not isinstance(ring, Integers):
        raise Unreadable("places that are no integers")
    return ring


def _chosen(
    ops: Elementwise, ring: Ring, read: Callable[..., Scalar], places: Sequence[Scalar]
) -> Scalar:
    """What is read at places, in every case of them."""

    def run(*known: Scalar) -> Scalar:
        return GARBAGE if GARBAGE in known else read(*known)

    return ops.algebra.apply(run, ring, [PLACES] * len(places), *places)


# Slices


def dynamic_slice(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    """A window that starts where it fits."""
    value, *starts = given
    type_, ring = signature.operands[0], ring_of(signature.operands[0].dtype)
    sizes = signature.results[0].shape
    at = _starts(ops, signature, 1, starts, type_.shape, sizes)
    strides = _strides(type_.shape)
    made = []
    for index in np.ndindex(*sizes):
        first = _flat(index, strides)

        def read(*places: int, first: int = first) -> Scalar:
            return value[first + _flat(places, strides)]

        made.append(_chosen(ops, ring, read, at))
    return made


def dynamic_update_slice(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    """The operand with a window written into it, where it fits."""
    value, update, *starts = given
    type_, window = signature.operands[:2]
    ring, inner = ring_of(type_.dtype), _strides(window.shape)
    at = _starts(ops, signature, 2, starts, type_.shape, window.shape)
    made = []
    for number, index in enumerate(np.ndindex(*type_.shape)):

        def read(*places: int, index: Index = index, number: int = number) -> Scalar:
            inside = [i - p for i, p in zip(index, places, strict=True)]
            if all(0 <= i < n for i, n in zip(inside, window.shape, strict=True)):
                return update[_flat(inside, inner)]
            return value[number]

        made.append(_chosen(ops, ring, read, at))
    return made


def _starts(
    ops: Elementwise,
    signature: Signature,
    first: int,
    starts: Sequence[Elements],
    shape: Index,
    window: Index,
) -> list[Scalar]:
    types = signature.operands[first:]
    return [
        clamped(ops.algebra, _integers(type_.dtype), start, size - part)
        for type_, (start,), size, part in zip(
            types, starts, shape, window, strict=True
        )
    ]


# Look-ups


class _Numbers(NamedTuple):
    """Dimension numbers of a gather or scatter."""

    offset: Index  # dimensions of the result (the updates) along windows
    single: Index  # dimensions of the operand that windows have one row of
    batches: tuple[tuple[int, int], ...]  # of the operand and of the indices
    places: Index  # dimensions of the operand that an index has numbers for
    vector: int  # the dimension of the indices along these numbers

    @staticmethod
    def of_gather(signature: Signature) -> _Numbers:
        found = fields(signature.attrs["dimension_numbers"])
        return _Numbers(
            found.get("offset_dims", ()),
            found.get("collapsed_slice_dims", ()),
            _pairs(found, "operand_batching_dims", "start_indices_batching_dims"),
            found.get("start_index_map", ()),
            found.get("index_vector_dim", (0,))[0],
        )

    @staticmethod
    def of_scatter(signature: Signature) -> _Numbers:
        found = fields(signature.attrs["scatter_dimension_numbers"])
        return _Numbers(
            found.get("update_window_dims", ()),
            found.get("inserted_window_dims", ()),
            _pairs(found, "input_batching_dims", "scatter_indices_batching_dims"),
            found.get("scatter_dims_to_operand_dims", ()),
            found.get("index_vector_dim", (0,))[0],
        )

    def windows(self, rank: int) -> Index:
        """Dimensions of the operand that windows have."""
        gone = {*self.single, *(dim for dim, _ in self.batches)}
        return tuple(dim for dim in range(rank) if dim not in gone)


def _pairs(found: dict[str, Index], *names: str) -> tuple[tuple[int, int], ...]:
    left, right = (found.get(name, ()) for name in names)
    return tuple(zip(left, right, strict=True))


class _Indices:
    """Where each window of a gather or scatter starts."""

    def __init__(
        self, ops: Elementwise, numbers: _Numbers, signature: Signature, at: int
    ) -> None:
        self.ops, self.numbers = ops, numbers
        self.type, self.attrs = signature.operands[at], signature.attrs
        self.ring = _integers(self.type.dtype)
        shape = self.type.shape
        self.shape = (*shape, 1) if numbers.vector == len(shape) else shape
        self.strides = _strides(self.shape)
        self.batch = tuple(n for d, n in enumerate(self.shape) if d != numbers.vector)

    def windows(self) -> Iterator[Index]:
        """Batch indices, in order."""
        return iter(np.ndindex(*self.batch))

    def one_each(self) -> bool:
        """Whether every row of a batch has one window: they differ, and are in order.

        An index is what a batch's number and the numbers of its vector are together.
        """
        dims = [
            along - (along > self.numbers.vector) for _, along in self.numbers.batches
        ]
        rows = [tuple(batch[dim] for dim in dims) for batch in self.windows()]
        return all(before < after for before, after in itertools.pairwise(rows))

    def vector(self, values: Elements, batch: Index) -> Elements:
        """The numbers of one index."""
        found = []
        for number in range(self.shape[self.numbers.vector]):
            index = [*batch]
            index.insert(self.numbers.vector, number)
            found.append(values[_flat(index, self.strides)])
        return found

    def starts(
        self, values: Elements, batch: Index, most: Sequence[int], clamp: bool
    ) -> list[Scalar]:
        """Places along the operand's dimensions; `most` is the last that fits."""
        numbers, place = self.numbers, clamped if clamp else within
        found: list[Scalar] = [0] * len(most)
        vector = self.vector(values, batch)
        for dim, start in zip(numbers.places, vector, strict=True):
            found[dim] = place(self.ops.algebra, self.ring, start, most[dim])
        for dim, along in numbers.batches:
            found[dim] = batch[along - (along > numbers.vector)]
        return found


def _believed(
    ops: Elementwise, where: _Indices, indices: Elements, windows: Index = ()
) -> None:
    """Indices that are said to be in order, or unique: they are, or the source says so.

    What is said of several is true of some of them, too. That they are unique is said
    of what windows reach, whose sizes along the indices' dimensions are given.
    """
    names = [name for name in _PROMISES if where.attrs.get(name) == "true"]
    if not names or where.one_each():
        return
    flat = [ops.algebra.flat(one, where.ring) for one in indices]
    rows = [tuple(where.vector(flat, batch)) for batch in where.windows()]
    known = [[where.ring.known(one) for one in row] for row in rows]
    if all(None not in row for row in known):
        in_order, unique = (
            known == sorted(known),
            len({*map(tuple, known)}) == len(rows) and {*windows} <= {1},
        )
        if (in_order or _PROMISES[0] not in names) and (
            unique or _PROMISES[1] not in names
        ):
            return
    numbers = where.numbers
    batches = (numbers.batches, where.shape) if numbers.batches else ()
    for name in names:
        kind = (name, where.type.dtype, numbers.places, windows, batches)
        ops.believe(repr(kind), rows)


def gather(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    """Windows that start where they fit, by indices."""
    value, indices = given
    type_, (result,) = signature.operands[0], signature.results
    numbers, ring = _Numbers.of_gather(signature), ring_of(type_.dtype)
    sizes = ints(signature.attrs["slice_sizes"])
    where = _Indices(ops, numbers, signature, 1)
    _believed(ops, where, indices)
    most = [n - size for n, size in zip(type_.shape, sizes, strict=True)]
    strides, outer = _strides(type_.shape), _strides(result.shape)
    inside = numbers.windows(len(type_.shape))
    batch_dims = [d for d in range(len(result.shape)) if d not in numbers.offset]
    made: Elements = [None] * len(np.empty(result.shape).reshape(-1))
    for batch in where.windows():
        at = where.starts(indices, batch, most, clamp=True)
        base = _flat(batch, [outer[d] for d in batch_dims])
        for offset in itertools.product(*(range(sizes[d]) for d in inside)):
            first = _flat(offset, [strides[d] for d in inside])

            def read(*places: int, first: int = first) -> Scalar:
                return value[first + _flat(places, strides)]

            here = base + _flat(offset, [outer[d] for d in numbers.offset])
            made[here] = _chosen(ops, ring, read, at)
    return made


# Updates


def scatter(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    """The operand, with updates combined into it one after the other.

    Windows that do not fit are left out whole, as XLA does.
    """
    if len(given) != 3:
        raise Unreadable("a scatter of several operands")
    value, indices, updates = given
    type_, _, update = signature.operands
    numbers = _Numbers.of_scatter(signature)
    where = _Indices(ops, numbers, signature, 1)
    inside, sizes = numbers.windows(len(type_.shape)), [1] * len(type_.shape)
    for dim, along in zip(inside, numbers.offset, strict=True):
        sizes[dim] = update.shape[along]
    _believed(ops, where, indices, tuple(sizes[dim] for dim in numbers.places))
    most = [n - size for n, size in zip(type_.shape, sizes, strict=True)]
    batch_dims = [d for d in range(len(update.shape)) if d not in numbers.offset]
    outer = _strides(update.shape)
    combine = _Combining(ops, signature, value)
    for batch in where.windows():
        at = where.starts(indices, batch, most, clamp=False)
        near = [_possible(p, n) for p, n in zip(at, type_.shape, strict=True)]
        base = _flat(batch, [outer[d] for d in batch_dims])
        for offset in itertools.product(*(range(sizes[d]) for d in inside)):
            here = base + _flat(offset, [outer[d] for d in numbers.offset])
            wide = [0] * len(sizes)
            for dim, n in zip(inside, offset, strict=True):
                wide[dim] = n
            combine.put(at, near, wide, updates[here])
    return combine.done()


def _possible(place: Scalar, size: int) -> Collection[int]:
    """Places that something may start at; `NOWHERE` is none, and garbage is any."""
    if type(place) is int:
        return [place] if place != NOWHERE else []
    if type(place) is not Cases:
        return range(-size, size)
    found: set[int] = set()
    for one in place.values:
        found.update(_possible(one, size))
    return sorted(found)


class _Combining:
    """Elements of a scatter's result, on the way."""

    def __init__(self, ops: Elementwise, signature: Signature, value: Elements) -> None:
        self.ops, (type_, *_) = ops, signature.results
        self.dtype, self.ring = type_.dtype, ring_of(type_.dtype)
        self.shape, self.strides = type_.shape, _strides(type_.shape)
        body = signature.lambdas[0]
        self.monoid = monoid_of(body)
        writes = not body.ops and body.results == body.arguments[1:2]
        if len(body.arguments) != 2 or (self.monoid is None and not writes):
            raise Unreadable("a scatter by what has no name")
        types = (*(body.types[a] for a in body.arguments), *signature.operands[::2])
        if any(one.dtype != self.dtype for one in types):
            raise Unreadable("a scatter that gives another type than it is given")
        self.members = [[one] for one in value]
        self.select = ops.select(self.dtype)
        self.nothing = None
        if self.monoid is not None:
            self.nothing = ops.monoids.neutral(self.monoid, self.dtype, self.ring)

    def put(
        self,
        at: Sequence[Scalar],
        near: Sequence[Collection[int]],
        offset: Sequence[int],
        update: Scalar,
    ) -> None:
        """Combine one update into all elements that it may be meant for."""
        for wanted in itertools.product(*near):
            index = [w + o for w, o in zip(wanted, offset, strict=True)]
            if any(not 0 <= i < n for i, n in zip(index, self.shape, strict=True)):
                continue
            members = self.members[_flat(index, self.strides)]
            key, hits = (*at, wanted), self.ops.hits
            if key not in hits:
                hits[key] = self._hit(at, wanted)
            hit = hits[key]
            if self.nothing is not None:
                members.append(self.select(hit, update, self.nothing))
                continue
            old = new = members[-1]
            if self.monoid is not None:  # of a type without what changes nothing
                both = (old, update)
                new = self.ops.monoids.total(self.monoid, self.dtype, self.ring, both)
            members[-1] = self.select(hit, new if self.monoid else update, old)

    def _hit(self, at: Sequence[Scalar], wanted: Sequence[int]) -> Scalar:
        """Whether a window's element is this one."""

        def run(*places: Scalar) -> Scalar:
            if GARBAGE in places:
                return GARBAGE
            return TRUE if [*places] == [*wanted] else FALSE

        return self.ops.algebra.apply(run, Truths(), [PLACES] * len(at), *at)

    def done(self) -> Elements:
        """All elements."""
        return [
            self.ops.monoids.total(self.monoid or "sum", self.dtype, self.ring, members)
            for members in self.members
        ]


def _strides(shape: Sequence[int]) -> list[int]:
    found, stride = [], 1
    for size in reversed(shape):
        found.append(stride)
        stride *= size
    return found[::-1]


def _flat(index: Sequence[int], strides: Sequence[int]) -> int:
    return sum(i * s for i, s in zip(index, strides, strict=True))
