"""What programs say of indices: that they are in order, or that they differ.

A source that says so of indices that are not so means nothing, and is taken by its
word. What it says is a fact about one tensor of indices, place by place. Devices may
say so of some of these places, if they have them in the same order, or each once; and
of numbers that are known to be so. What is behind the end of a short tile is in no
order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from partir.ir.attributes import fields, ints
from partir.ir.core import Signature
from partir.verify.classes.rows import GARBAGE, Rows
from partir.verify.layouts.concrete import numbers
from partir.verify.layouts.layout import Unreadable, View
from partir.verify.layouts.spread import MOST, rows_of, shape_of
from partir.verify.machine.indices import plain_index
from partir.verify.machine.machine import Machine

SORTED, UNIQUE = "indices_are_sorted", "unique_indices"
_NUMBERS = {"gather": "dimension_numbers", "scatter": "scatter_dimension_numbers"}


class Told(NamedTuple):
    """Indices of the source of which it says something, and inside of which regions."""

    indices: View
    how: _Indices
    within: tuple[Hashable, ...]


class _Indices(NamedTuple):
    """Which dimensions of indices have their vectors, and rows of batches."""

    vector: int
    batches: tuple[int, ...]

    def rows(self, found: np.ndarray, axes: int) -> np.ndarray:
        """By row of a batch, of whichever device, and place: what is in a vector.

        `found` is over axes, the indices' dimensions and one more.
        """
        rank = found.ndim - axes - 1
        inner = [self.vector] if self.vector < rank else []
        outer = [*range(axes), *(axes + dim for dim in self.batches)]
        places = [d for d in range(rank) if d not in (*inner, *self.batches)]
        order = [*outer, *(axes + d for d in (*places, *inner)), found.ndim - 1]
        width = int(np.prod([found.shape[axes + d] for d in inner], dtype=np.int64))
        count = int(np.prod([found.shape[d] for d in outer], dtype=np.int64))
        width *= found.shape[-1]
        size = found.size // max(width * count, 1) if width else 1
        return found.transpose(order).reshape(count, size, width)


def told(signature: Signature) -> list[str]:
    """What a look-up or scatter is told of its indices, if there are several.

    One index is in order, and so is one of each row of a batch.
    """
    names = [name for name in (SORTED, UNIQUE) if signature.attrs.get(name) == "true"]
    if not names:
        return names
    how, shape = _how(signature), _index_shape(signature)
    others = (how.vector, *how.batches)
    several = any(size > 1 for dim, size in enumerate(shape) if dim not in others)
    return names if several else []


def believe(machine: Machine, signature: Signature, index: View) -> None:
    """Remember what the source says of indices."""
    index = plain_index(machine, index)
    found = Told(index, _how(signature), machine.within)
    for name in told(signature):
        key = _kind(signature, name), index.node
        known = machine.classes.told.setdefault(key, [])
        if found not in known:
            known.append(found)


def is_told(
    machine: Machine, signature: Signature, index: View, names: Sequence[str]
) -> bool:
    """Whether the source says this of all indices that a device has, or they are so."""
    if not names:
        return True
    index = plain_index(machine, index)
    known = numbers(machine.classes, index)
    if known is not None:
        shape = np.broadcast_shapes(known.shape, shape_of(index.layout))
        spread = np.broadcast_to(known, shape)[..., None]
        rows = _how(signature).rows(spread, len(machine.sizes))
        if not all(_ARE[name](rows) for name in names):
            return False
        names = [name for name in names if not _settled_by_numbers(signature, name)]
    return all(_is_said(machine, signature, index, name) for name in names)


def _settled_by_numbers(signature: Signature, name: str) -> bool:
    """Whether numbers show it: windows of several rows may overlap all the same."""
    if name == SORTED:
        return True
    found = fields(signature.attrs[_NUMBERS[signature.name]])
    dims = _addressed(found)
    return all(n == 1 for dim, n in _windows(signature, found) if dim in dims)


def _is_said(machine: Machine, signature: Signature, index: View, name: str) -> bool:
    said = machine.classes.told.get((_kind(signature, name), index.node), ())
    how, inside = _how(signature), machine.within
    return any(
        one.within == inside[: len(one.within)]
        and (
            _is_whole(index, one.indices, how, one.how)
            or _are_some(machine, index, how, one, name)
        )
        for one in said
    )


def _is_whole(index: View, whole: View, how: _Indices, other: _Indices) -> bool:
    """Whether a device has all indices, as the source does."""
    if index == whole and how == other:
        return True
    alone = all(d.dim < 0 for items in index.layout.axes for d in items)
    alike = (index.layout.local, index.layout.tables) == (
        whole.layout.local,
        whole.layout.tables,
    )
    return alone and alike and how == other and not whole.layout.axes


def _are_some(
    machine: Machine, index: View, how: _Indices, said: Told, name: str
) -> bool:
    """Whether a device has some of the indices, in their order, or each once.

    Of a batch's row of which nothing is known, nothing is asked.
    """
    count = len(machine.term(index).dims)
    try:
        have, want = _places(index, how, count), _places(said.indices, said.how, count)
    except Unreadable:
        return False
    if have.shape[-1] != want.shape[-1]:
        return False
    lost = (have == GARBAGE).any(-1)
    have = have[~lost.all(-1)] if how.batches else have
    if (have == GARBAGE).any():
        return False
    both = np.concatenate([x.reshape(-1, x.shape[-1]) for x in (have, want)])
    _, number = np.unique(both, axis=0, return_inverse=True)
    number = number.reshape(-1)
    cut = have.shape[0] * have.shape[1]
    mine = np.unique(number[:cut].reshape(have.shape[:-1]), axis=0)
    whole = np.unique(number[cut:].reshape(want.shape[:-1]), axis=0)
    if len(mine) * len(whole) * want.shape[1] > MOST:
        return False
    return all(any(_is_among(row, one, name) for one in whole) for row in mine)


def _places(index: View, how: _Indices, count: int) -> Rows:
    """At each place of a vector of indices, the rows of its class that are there."""
    shape, layout = shape_of(index.layout), index.layout
    if int(np.prod(shape, dtype=np.int64)) * max(count, 1) > MOST:
        raise Unreadable("too many indices to say something of")
    rows = [np.broadcast_to(rows_of(layout, dim), shape) for dim in range(count)]
    stacked = np.stack(rows, -1) if rows else np.zeros((*shape, 1), np.int64)
    return how.rows(stacked, len(layout.axes))


def _is_among(row: Rows, whole: Rows, name: str) -> bool:
    """Whether numbered indices are some of others, in order or each once."""
    order = np.argsort(whole, kind="stable")
    at = np.searchsorted(whole, row, sorter=order)
    place = order[np.minimum(at, whole.size - 1)]
    if (whole[place] != row).any():
        return False
    if name == SORTED:
        return bool((np.diff(place) >= 0).all())
    return np.unique(place).size == place.size


def _rise(rows: np.ndarray) -> bool:
    """Whether known indices are in order, by their first column first."""
    before, after = rows[:, :-1], rows[:, 1:]
    equal = np.ones(before.shape[:2], np.bool_)
    for column in range(rows.shape[-1]):
        if (equal & (after[..., column] < before[..., column])).any():
            return False
        equal &= after[..., column] == before[..., column]
    return True


def _differ(rows: np.ndarray) -> bool:
    """Whether known indices differ from each other."""
    return all(len(np.unique(row, axis=0)) == len(row) for row in rows)


_ARE: dict[str, Callable[[np.ndarray], bool]] = {SORTED: _rise, UNIQUE: _differ}


def _how(signature: Signature) -> _Indices:
    found = fields(signature.attrs[_NUMBERS[signature.name]])
    names = ("start_indices_batching_dims", "scatter_indices_batching_dims")
    batches = tuple(dim for name in names for dim in found.get(name, ()))
    return _Indices(found.get("index_vector_dim", (0,))[0], batches)


def _index_shape(signature: Signature) -> tuple[int, ...]:
    return signature.operands[len(signature.results)].shape


def _kind(signature: Signature, name: str) -> Hashable:
    """What is said, and of which dimensions: of which windows, if they differ."""
    found = fields(signature.attrs[_NUMBERS[signature.name]])
    addressed = _addressed(found)
    if name == SORTED:
        return name, addressed
    sizes = dict(_windows(signature, found))
    return name, addressed, tuple(sizes.get(dim, 1) for dim in addressed)


def _addressed(found: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Dimensions that indices are of."""
    names = ("start_index_map", "scatter_dims_to_operand_dims")
    return tuple(dim for one in names for dim in found.get(one, ()))


def _windows(
    signature: Signature, found: dict[str, tuple[int, ...]]
) -> Iterator[tuple[int, int]]:
    """How much of each dimension a window of a scatter, or a look-up, reaches."""
    if signature.name == "gather":
        yield from enumerate(ints(signature.attrs["slice_sizes"]))
        return
    names = ("inserted_window_dims", "input_batching_dims")
    gone = {dim for name in names for dim in found.get(name, ())}
    update = signature.operands[len(signature.results) + 1].shape
    kept = [d for d in range(len(signature.operands[0].shape)) if d not in gone]
    for dim, place in zip(kept, found.get("update_window_dims", ()), strict=True):
        yield dim, update[place]
