"""Tiles along the outermost dimension, for collectives along an inner one.

Compilers that move memory as it lies want the tiles of devices one behind the other.
Asked to gather along an inner dimension, they lay the value out with that dimension
first, and with it all that it is computed from; then it is copied back.

Tiles get no dimension of their own: XLA on CPUs writes in place what it must not if a
`dynamic_update_slice` is reshaped to one with a dimension of size one in front.
"""

from __future__ import annotations

import math

from partir.rules.identities import TILED, cites
from partir.rules.local import Emitter, Ssa


def is_inner(value: Ssa, dim: int) -> bool:
    """Whether tiles along a dimension are not one piece of memory each."""
    return math.prod(value.type.shape[:dim]) > 1


@cites(TILED)
def joined(emitter: Emitter, tiles: Ssa, dim: int, count: int) -> Ssa:
    """Tiles one behind the other along a dimension: [n * a, t] -> [a, n * t]."""
    shape = list(tiles.type.shape)
    shape[0] //= count
    apart = _reshaped(emitter, tiles, (count, *shape))
    order = (*range(1, dim + 1), 0, *range(dim + 1, len(shape) + 1))
    shape[dim] *= count
    return _reshaped(emitter, _transposed(emitter, apart, order), tuple(shape))


@cites(TILED)
def parted(emitter: Emitter, value: Ssa, dim: int, count: int) -> Ssa:
    """Tiles along the outermost dimension: [a, n * t] -> [n * a, t]."""
    shape = list(value.type.shape)
    shape[dim] //= count
    split = (*shape[:dim], count, *shape[dim:])
    order = (dim, *range(dim), *range(dim + 1, len(split)))
    apart = _transposed(emitter, _reshaped(emitter, value, split), order)
    return _reshaped(emitter, apart, (count * shape[0], *shape[1:]))


def _reshaped(emitter: Emitter, value: Ssa, shape: tuple[int, ...]) -> Ssa:
    type_ = value.type.with_shape(shape)
    return emitter.op("stablehlo.reshape", (value,), (type_,))[0]


def _transposed(emitter: Emitter, value: Ssa, order: tuple[int, ...]) -> Ssa:
    type_ = value.type.with_shape(tuple(value.type.shape[dim] for dim in order))
    attrs = {"permutation": f"array<i64: {', '.join(map(str, order))}>"}
    return emitter.op("stablehlo.transpose", (value,), (type_,), attrs)[0]
