"""Parts of values along one dimension: rows, windows, rows one behind the other."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.types import TensorType
from partir.rules.local import (
    INDEX,
    Emitter,
    Ssa,
    binary,
    compared,
    constant,
    extent_start,
    padded,
    selected,
    sliced,
    sliced_at,
)
from partir.rules.monoids import identity
from partir.rules.reach import Extent


def concatenated(emitter: Emitter, items: Sequence[Ssa], dim: int) -> Ssa:
    """Values one behind the other along a dimension."""
    if len(items) == 1:
        return items[0]
    type_ = rows_type(items[0], dim, sum(item.type.shape[dim] for item in items))
    attrs = {"dimension": f"{dim} : i64"}
    return emitter.op("stablehlo.concatenate", items, (type_,), attrs)[0]


def window_of_whole(
    emitter: Emitter,
    value: Ssa,
    dim: int,
    extent: Extent,
    parts: Sequence[int],
    outside: str | None = None,
) -> Ssa:
    """This iteration's window of a whole dimension; zeros, or `outside`, around it."""
    starts = extent.starts(parts)
    low = max(0, -min(starts))
    high = max(0, max(starts) + extent.length - value.type.shape[dim])
    other = outside or zero(value)
    value = _widened(emitter, value, dim, low, high, None if extent.wrap else other)
    start = extent_start(emitter, extent)
    if low:
        start = binary(emitter, "add", start, constant(emitter, INDEX, str(low)))
    return cut_at(emitter, value, dim, start, extent.length)


def written_over(
    emitter: Emitter,
    tile: Ssa,
    dim: int,
    piece: Ssa,
    first: int,
    extent: Extent,
    parts: Sequence[int],
) -> Ssa:
    """A tile with what it shares with a piece that starts at `first` written over it.

    Where it shares nothing, the piece goes behind its end, and is cut off.
    """
    rows, more = extent.length, piece.type.shape[dim]
    if not more:
        return tile
    places = [first - start for start in extent.starts(parts)]
    low = max(0, *(-place for place in places if -more < place < rows))
    room = _widened(emitter, tile, dim, low, more, zero(tile))
    start = extent_start(emitter, extent)
    place = binary(emitter, "subtract", constant(emitter, INDEX, str(first)), start)
    none, end = (constant(emitter, INDEX, str(number)) for number in (-more, rows))
    shares = compared(emitter, place, "GT", none)
    place = selected(emitter, shares, binary(emitter, "minimum", place, end), end)
    place = binary(emitter, "add", place, constant(emitter, INDEX, str(low)))
    at = starts_at(emitter, room, dim, place)
    kind = "stablehlo.dynamic_update_slice"
    (room,) = emitter.op(kind, (room, piece, *at), (room.type,))
    return cut(emitter, room, dim, low, rows)


def _widened(
    emitter: Emitter, value: Ssa, dim: int, low: int, high: int, outside: str | None
) -> Ssa:
    """More rows before and behind: a number, or those of the other end."""
    if not low and not high:
        return value
    if outside is None:
        rows = low + value.type.shape[dim] + high
        return around(emitter, value, dim, -low, rows)
    none = [0] * len(value.type.shape)
    lows, highs = list(none), list(none)
    lows[dim], highs[dim] = low, high
    return padded(emitter, value, lows, highs, none, outside)


def around(emitter: Emitter, value: Ssa, dim: int, first: int, rows: int) -> Ssa:
    """Rows from a place on; behind the last, and before the first, it goes round."""
    size, items = value.type.shape[dim], []
    while rows:
        start = first % size
        part = min(rows, size - start)
        items.append(cut(emitter, value, dim, start, part))
        first, rows = first + part, rows - part
    return concatenated(emitter, items, dim)


def more_rows(emitter: Emitter, value: Ssa, dim: int, more: int) -> Ssa:
    """Zeros behind the last row."""
    return _widened(emitter, value, dim, 0, max(more, 0), zero(value))


def rows_type(like: Ssa, dim: int, rows: int) -> TensorType:
    """A value's type with another number of rows."""
    shape = like.type.shape
    return like.type.with_shape((*shape[:dim], rows, *shape[dim + 1 :]))


def zero(like: Ssa) -> str:
    """Nothing, as a literal."""
    return identity("sum", like.type)


def cut(emitter: Emitter, value: Ssa, dim: int, start: int, rows: int) -> Ssa:
    """Rows at a place that is known."""
    shape = value.type.shape
    if rows == shape[dim]:
        return value
    starts = [start if d == dim else 0 for d in range(len(shape))]
    return sliced(emitter, value, starts, rows_type(value, dim, rows).shape)


def cut_at(emitter: Emitter, value: Ssa, dim: int, start: Ssa, rows: int) -> Ssa:
    """Rows at a place that is computed."""
    if rows == value.type.shape[dim]:
        return value
    starts = starts_at(emitter, value, dim, start)
    return sliced_at(emitter, value, starts, rows_type(value, dim, rows).shape)


def starts_at(emitter: Emitter, value: Ssa, dim: int, start: Ssa) -> list[Ssa]:
    """Where to cut: at `start` along one dimension."""
    zero = constant(emitter, INDEX, "0")
    return [start if d == dim else zero for d in range(len(value.type.shape))]
