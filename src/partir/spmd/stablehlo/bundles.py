"""Values side by side for one collective, and what it makes of each.

A sum takes them flat. What is scattered lies as a row for each device, what is gathered
comes as such rows; values follow each other along the rows.
"""

from __future__ import annotations

import math
from itertools import accumulate

from partir.rules.identities import TOGETHER, WAITING, cites
from partir.rules.local import Emitter, Ssa, constant, place_type
from partir.rules.slices import concatenated, cut_at
from partir.spmd.lowering.padding import cut_tiles, pad_tiles
from partir.spmd.program import Collective
from partir.spmd.stablehlo.outer_tiles import is_inner, joined, parted


@cites(TOGETHER)
def bundled(emitter: Emitter, values: list[Ssa]) -> Ssa:
    """Values one behind the other along their last dimension."""
    return concatenated(emitter, values, len(values[0].type.shape) - 1)


@cites(TOGETHER, WAITING)
def unbundled(emitter: Emitter, made: Ssa, values: list[Ssa]) -> list[Ssa]:
    """What a collective made of each of the values that were `bundled`.

    Where each begins is hidden behind a barrier. XLA compiles a kernel once for all
    layers that have it, but one that reads from a known place is another for each.
    """
    dim = len(made.type.shape) - 1
    return _cut(emitter, made, dim, [value.type.shape[dim] for value in values])


@cites(TOGETHER, WAITING)
def in_pieces(emitter: Emitter, value: Ssa, count: int) -> Ssa:
    """A value cut along its outermost dimension and put together again.

    XLA on CPUs cuts what devices exchange, each piece by a kernel of its own. It finds
    that these are cut already, by one kernel for all of them.
    """
    pieces = _cut(emitter, value, 0, [value.type.shape[0] // count] * count)
    return concatenated(emitter, pieces, 0)


def _cut(emitter: Emitter, value: Ssa, dim: int, sizes: list[int]) -> list[Ssa]:
    """Pieces that follow each other along a dimension, from hidden places."""
    type_ = place_type(sum(sizes))
    places = accumulate(sizes[:-1], initial=0)
    starts = [constant(emitter, type_, str(place)) for place in places]
    hidden = emitter.op("stablehlo.optimization_barrier", starts, [type_] * len(starts))
    return [
        cut_at(emitter, value, dim, start, size)
        for start, size in zip(hidden, sizes, strict=True)
    ]


def moved_shape(kind: str, shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The shape of what a collective of so many devices makes of a bundle."""
    if kind == "all_reduce":
        return shape
    return (1 if kind == "reduce_scatter" else count, shape[-1])


def flat(emitter: Emitter, op: Collective, value: Ssa, parts: tuple[int, ...]) -> Ssa:
    """A value as it lies among others: a row, or one for each device."""
    if op.kind == "all_reduce":
        return _reshaped(emitter, value, (math.prod(value.type.shape),))
    count = 1
    if op.kind == "reduce_scatter":
        count = math.prod(parts)
        value = pad_tiles(emitter, value, op.dim, parts)
        if is_inner(value, op.dim):
            value = parted(emitter, value, op.dim, count)
    return _reshaped(emitter, value, (count, math.prod(value.type.shape) // count))


def unflat(
    emitter: Emitter,
    op: Collective,
    made: Ssa,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    parts: tuple[int, ...],
) -> Ssa:
    """What a collective made of a value, in shape; that before and after it."""
    before, after = shapes
    if op.kind != "all_gather":
        return _reshaped(emitter, made, after)
    count = math.prod(parts)
    rows = (count * before[0], *before[1:])
    if math.prod(before[: op.dim]) > 1:
        made = joined(emitter, _reshaped(emitter, made, rows), op.dim, count)
    else:
        grown = (*before[: op.dim], count * before[op.dim], *before[op.dim + 1 :])
        made = _reshaped(emitter, made, grown)
    return cut_tiles(emitter, made, op.dim, after[op.dim], parts)


def _reshaped(emitter: Emitter, value: Ssa, shape: tuple[int, ...]) -> Ssa:
    if value.type.shape == shape:
        return value
    type_ = value.type.with_shape(shape)
    return emitter.op("stablehlo.reshape", (value,), (type_,))[0]
