"""Windows as StableHLO: permutes of what neighbours hold, put together with one's own.

Where all devices do alike, rows move by known amounts and are joined. Else tables say,
by the device's place along the axes, where rows come from and go to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from partir.ir.types import tensor
from partir.rules.local import (
    INDEX,
    Emitter,
    Ssa,
    binary,
    constant,
    selected,
    sliced_at,
)
from partir.rules.masks import rows_between
from partir.rules.slices import (
    concatenated,
    cut,
    cut_at,
    more_rows,
    rows_type,
    starts_at,
    zero,
)
from partir.spmd.exchange import Piece, Round, Window

Send = Callable[[Ssa, Sequence[tuple[int, int]]], Ssa]
"""Permutes a value among the devices of a dimension's axes."""


def exchange(
    emitter: Emitter, tile: Ssa, dim: int, window: Window, place: Ssa, send: Send
) -> Ssa:
    """Each device's window, out of the tiles that all have; `place` is its own."""
    own, rounds = window.plan
    if window.stretches is not None:
        return _joined(emitter, tile, dim, window, send)
    if window.order is not None:
        return _overwritten(emitter, tile, dim, window, place, send)
    made = constant(emitter, rows_type(tile, dim, window.extent.length), zero(tile))
    for number, round_ in enumerate((own, *rounds)):
        if round_.pieces:
            moved = _moved(emitter, tile, dim, round_, place, send if number else None)
            rows = tile.type.shape[dim]
            made = _written(emitter, made, moved, dim, round_, place, rows)
    return made


# All devices alike


def _joined(emitter: Emitter, tile: Ssa, dim: int, window: Window, send: Send) -> Ssa:
    """Pieces one behind the other, nothing where no device has any."""
    own, rounds = window.plan
    parts: list[tuple[int, Ssa]] = []
    for number, round_ in enumerate((own, *rounds)):
        found = round_.stretch
        if found is None:
            continue
        first, end = found
        part = cut(emitter, tile, dim, first - round_.pieces[0].shift, end - first)
        parts.append((first, send(part, _pairs(round_)) if number else part))
    items, position = [], 0
    for first, part in sorted(parts, key=lambda item: item[0]):
        if first > position:
            items.append(_nothing(emitter, tile, dim, first - position))
        items.append(part)
        position = first + part.type.shape[dim]
    if position < window.extent.length:
        items.append(_nothing(emitter, tile, dim, window.extent.length - position))
    return concatenated(emitter, items, dim)


def _pairs(round_: Round) -> list[tuple[int, int]]:
    return [(piece.source, piece.target) for piece in round_.pieces]


def _nothing(emitter: Emitter, like: Ssa, dim: int, rows: int) -> Ssa:
    return constant(emitter, rows_type(like, dim, rows), zero(like))


# Devices that differ


def _overwritten(
    emitter: Emitter, tile: Ssa, dim: int, window: Window, place: Ssa, send: Send
) -> Ssa:
    """Pieces written one over the end of the other, in the order of their places."""
    own, rounds = window.plan
    all_rounds, length = (own, *rounds), window.extent.length
    assert window.order is not None
    longest = max(all_rounds[number].rows for number in window.order)
    made = constant(emitter, rows_type(tile, dim, length + longest), zero(tile))
    for number in window.order:
        round_ = all_rounds[number]
        starts = {p.source: p.start for p in round_.pieces}
        end = max(starts.values()) + round_.rows
        roomy = more_rows(emitter, tile, dim, end - tile.type.shape[dim])
        part = cut_at(
            emitter, roomy, dim, _looked_up(emitter, starts, place), round_.rows
        )
        part = send(part, _pairs(round_)) if number else part
        places = {p.target: p.place for p in round_.pieces}
        count = math.prod(window.parts)
        everywhere = {n: places.get(n, length) for n in range(count)}
        at = starts_at(emitter, made, dim, _looked_up(emitter, everywhere, place))
        kind = "stablehlo.dynamic_update_slice"
        (made,) = emitter.op(kind, (made, part, *at), (made.type,))
    return cut(emitter, made, dim, 0, length)


def _moved(
    emitter: Emitter,
    tile: Ssa,
    dim: int,
    round_: Round,
    place: Ssa,
    send: Send | None,
) -> Ssa:
    """What a device gets in a round: as many rows for each, the wanted among them."""
    starts = {
        p.source: _start(p, round_.rows, tile.type.shape[dim]) for p in round_.pieces
    }
    start = _looked_up(emitter, starts, place)
    part = cut_at(emitter, tile, dim, start, round_.rows)
    return send(part, _pairs(round_)) if send else part


def _start(piece: Piece, rows: int, tile: int) -> int:
    """Where `rows` of a tile start that have the piece's in them."""
    return min(piece.start, tile - rows)


def _written(
    emitter: Emitter,
    made: Ssa,
    moved: Ssa,
    dim: int,
    round_: Round,
    place: Ssa,
    tile: int,
) -> Ssa:
    """What was there, and the rows of this round in their places."""
    rows, length = moved.type.shape[dim], made.type.shape[dim]
    shifts, firsts, ends = {}, {}, {}
    for p in round_.pieces:
        shifts[p.target] = rows + p.shift + _start(p, rows, tile)
        firsts[p.target], ends[p.target] = p.place, p.place + p.rows
    room = rows_type(made, dim, length + 2 * rows)
    empty = constant(emitter, room, zero(made))
    starts = starts_at(emitter, made, dim, _looked_up(emitter, shifts, place))
    kind = "stablehlo.dynamic_update_slice"
    (wide,) = emitter.op(kind, (empty, moved, *starts), (room,))
    laid = cut(emitter, wide, dim, rows, length)
    first, end = (_looked_up(emitter, table, place) for table in (firsts, ends))
    inside = rows_between(emitter, made, dim, first, end)
    return selected(emitter, inside, laid, made)


def _looked_up(emitter: Emitter, table: dict[int, int], place: Ssa) -> Ssa:
    """A device's number in a table; 0 for those that have none."""
    if not any(table.values()):
        return constant(emitter, INDEX, "0")
    size = max(table) + 2  # one more for the devices behind
    numbers = ", ".join(str(table.get(key, 0)) for key in range(size))
    type_ = tensor((size,), "i32")
    attrs = {"value": f"dense<[{numbers}]> : {type_.text}"}
    (whole,) = emitter.op("stablehlo.constant", (), (type_,), attrs)
    last = constant(emitter, INDEX, str(size - 1))
    found = sliced_at(emitter, whole, [binary(emitter, "minimum", place, last)], [1])
    return emitter.op("stablehlo.reshape", (found,), (INDEX,))[0]
