"""Tiles along an outer dimension of their own, for collectives along an inner one.

Compilers that move memory as it lies want the tiles of devices one behind the other.
Asked to gather along an inner dimension, they lay the value out with that dimension
first, and with it all that it is computed from; then it is copied back.
"""

from __future__ import annotations

import math

from partir.rules.identities import TILED, cites
from partir.rules.local import Emitter, Ssa


def is_inner(value: Ssa, dim: int) -> bool:
    """Whether tiles along a dimension are not one piece of memory each."""
    return math.prod(value.type.shape[:dim]) > 1


def alone(emitter: Emitter, tile: Ssa) -> Ssa:
    """A tile as the only one along an outer dimension."""
    return _reshaped(emitter, tile, (1, *tile.type.shape))


def taken(emitter: Emitter, tiles: Ssa) -> Ssa:
    """The only tile."""
    return _reshaped(emitter, tiles, tiles.type.shape[1:])


@cites(TILED)
def joined(emitter: Emitter, tiles: Ssa, dim: int) -> Ssa:
    """Tiles one behind the other along a dimension: [n, a, t] -> [a, n * t]."""
    count, *shape = tiles.type.shape
    order = (*range(1, dim + 1), 0, *range(dim + 1, len(shape) + 1))
    shape[dim] *= count
    return _reshaped(emitter, _transposed(emitter, tiles, order), tuple(shape))


@cites(TILED)
def parted(emitter: Emitter, value: Ssa, dim: int, count: int) -> Ssa:
    """Tiles along an outer dimension: [a, n * t] -> [n, a, t]."""
    shape = value.type.shape
    split = (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
    order = (dim, *range(dim), *range(dim + 1, len(split)))
    return _transposed(emitter, _reshaped(emitter, value, split), order)


def _reshaped(emitter: Emitter, value: Ssa, shape: tuple[int, ...]) -> Ssa:
    type_ = value.type.with_shape(shape)
    return emitter.op("stablehlo.reshape", (value,), (type_,))[0]


def _transposed(emitter: Emitter, value: Ssa, order: tuple[int, ...]) -> Ssa:
    type_ = value.type.with_shape(tuple(value.type.shape[dim] for dim in order))
    attrs = {"permutation": f"array<i64: {', '.join(map(str, order))}>"}
    return emitter.op("stablehlo.transpose", (value,), (type_,), attrs)[0]
