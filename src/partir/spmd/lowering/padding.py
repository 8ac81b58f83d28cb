"""Tiles of a dimension that does not divide: padded to be equal, cut to be joined.

Collectives want equal tiles. A dimension of size 7 over axes of sizes 2 and 2 lies as
tiles of 4, of 2 each: 8 rows, the last of which is garbage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from partir.rules.identities import SHORT, cites
from partir.rules.local import Emitter, Ssa, padded, sliced
from partir.rules.monoids import identity
from partir.rules.reach import tile_sizes


def divides(size: int, parts: Sequence[int]) -> bool:
    """Whether all tiles are full."""
    return size % math.prod(parts) == 0


@cites(SHORT)
def pad_tiles(emitter: Emitter, value: Ssa, dim: int, parts: Sequence[int]) -> Ssa:
    """A dimension as equal tiles one after the other, garbage in what is short."""
    size = value.type.shape[dim]
    if divides(size, parts):
        return value
    tile, *_ = tile_sizes(size, parts[:1])
    value = _resized(emitter, value, dim, tile * parts[0])
    if len(parts) == 1:
        return value
    value = _reshaped(emitter, value, dim, 1, (parts[0], tile))
    value = pad_tiles(emitter, value, dim + 1, parts[1:])
    return _reshaped(emitter, value, dim, 2, (-1,))


def cut_tiles(
    emitter: Emitter, value: Ssa, dim: int, size: int, parts: Sequence[int]
) -> Ssa:
    """Equal tiles one after the other as the dimension of this size that they make."""
    if divides(size, parts):
        return value
    tile, *_ = tile_sizes(size, parts[:1])
    if len(parts) > 1:
        rows = value.type.shape[dim] // parts[0]
        value = _reshaped(emitter, value, dim, 1, (parts[0], rows))
        value = cut_tiles(emitter, value, dim + 1, tile, parts[1:])
        value = _reshaped(emitter, value, dim, 2, (-1,))
    return _resized(emitter, value, dim, size)


def _resized(emitter: Emitter, value: Ssa, dim: int, size: int) -> Ssa:
    """More rows at the end, or fewer."""
    shape = value.type.shape
    more = size - shape[dim]
    if more <= 0:
        sizes = [size if d == dim else n for d, n in enumerate(shape)]
        return sliced(emitter, value, [0] * len(shape), sizes) if more else value
    none = [0] * len(shape)
    high = [more if d == dim else 0 for d in range(len(shape))]
    zero = identity("sum", value.type)
    return padded(emitter, value, none, high, none, zero)


def _reshaped(
    emitter: Emitter, value: Ssa, dim: int, count: int, sizes: tuple[int, ...]
) -> Ssa:
    """`count` dimensions from `dim` on as others; -1 is what they have together."""
    shape = value.type.shape
    if sizes == (-1,):
        sizes = (math.prod(shape[dim : dim + count]),)
    type_ = value.type.with_shape((*shape[:dim], *sizes, *shape[dim + count :]))
    return emitter.op("stablehlo.reshape", (value,), (type_,))[0]
