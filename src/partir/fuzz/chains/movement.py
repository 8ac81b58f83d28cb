"""Ops that move rows: edges, parts, orders, shapes, and rows at indices."""

from __future__ import annotations

import random

import numpy as np

from partir.fuzz.chains.kinds import NUMBERS, Array, Given, Options, Spot, register
from partir.fuzz.chains.text import Tensor, Writer, ints

# Edges


def _write_pad(
    text: Writer, spot: Spot, x: Tensor, low: int, high: int, number: float
) -> Tensor:
    lows, highs = x.along(spot.dim, low), x.along(spot.dim, high)
    attrs = f"edge_padding_low = {ints(lows)}, edge_padding_high = {ints(highs)}, "
    attrs += f"interior_padding = {ints(x.along(spot.dim, 0))}"
    shape = x.sized(spot.dim, x.shape[spot.dim] + low + high)
    return text.op("pad", [x, text.constant(number)], shape, attrs)


def _compute_pad(
    given: Given, spot: Spot, x: Array, low: int, high: int, number: float
) -> Array:
    edges = [(low, high) if d == spot.dim else (0, 0) for d in range(x.ndim)]
    return np.pad(x, edges, constant_values=number)


register(
    "pad",
    _write_pad,
    _compute_pad,
    lambda rng: (rng.randrange(2), 1, rng.choice(NUMBERS)),
)


def _write_join(text: Writer, spot: Spot, x: Tensor, count: int, first: bool) -> Tensor:
    rows = text.slice(text.named["w"], 0, 0, count)
    other = text.broadcast(rows, [spot.dim], x.sized(spot.dim, count))
    parts = [other, x] if first else [x, other]
    shape = x.sized(spot.dim, x.shape[spot.dim] + count)
    return text.op("concatenate", parts, shape, f"dimension = {spot.dim} : i64")


def _compute_join(given: Given, spot: Spot, x: Array, count: int, first: bool) -> Array:
    shape = [count if d == spot.dim else size for d, size in enumerate(x.shape)]
    other = np.broadcast_to(spot.along(x, given.w[:count]), shape)
    return np.concatenate([other, x] if first else [x, other], spot.dim)


register("join", _write_join, _compute_join, lambda rng: (2, rng.random() < 0.5))


# Parts


def _write_slice(
    text: Writer, spot: Spot, x: Tensor, low: int, high: int
) -> Tensor | None:
    end = x.shape[spot.dim] - high
    return text.slice(x, spot.dim, low, end) if end > low else None


register(
    "slice",
    _write_slice,
    lambda given, spot, x, low, high: spot.rows(x, low, x.shape[spot.dim] - high),
    lambda rng: (rng.randrange(2), rng.randrange(2)),
)


def _starts(text: Writer, spot: Spot, x: Tensor, start: int | None) -> list[Tensor]:
    """Indices of a slice: along one dimension a known one or the argument `i`."""
    zero = text.constant(0, dtype="i32")
    known = text.named["i"] if start is None else text.constant(start, dtype="i32")
    return [known if d == spot.dim else zero for d in range(len(x.shape))]


def _clamped(given: Given, start: int | None, room: int) -> int:
    """Where a slice starts, which must end inside."""
    return min(max(given.i if start is None else start, 0), room)


def _write_dynamic_slice(
    text: Writer, spot: Spot, x: Tensor, size: int
) -> Tensor | None:
    if x.shape[spot.dim] < size:
        return None
    shape = x.sized(spot.dim, size)
    operands = [x, *_starts(text, spot, x, None)]
    return text.op("dynamic_slice", operands, shape, f"slice_sizes = {ints(shape)}")


def _compute_dynamic_slice(given: Given, spot: Spot, x: Array, size: int) -> Array:
    start = _clamped(given, None, x.shape[spot.dim] - size)
    return spot.rows(x, start, start + size)


register(
    "dynamic_slice", _write_dynamic_slice, _compute_dynamic_slice, lambda rng: (2,)
)


# Two rows of `w` written over those at a known index or at the argument


def _write_update(
    text: Writer, spot: Spot, x: Tensor, start: int | None
) -> Tensor | None:
    if x.shape[spot.dim] < 3:
        return None
    rows = text.slice(text.named["w"], 0, 3, 5)
    update = text.broadcast(rows, [spot.dim], x.sized(spot.dim, 2))
    operands = [x, update, *_starts(text, spot, x, start)]
    return text.op("dynamic_update_slice", operands, x.shape)


def _compute_update(given: Given, spot: Spot, x: Array, start: int | None) -> Array:
    first = _clamped(given, start, x.shape[spot.dim] - 2)
    made = np.moveaxis(x.copy(), spot.dim, -1)
    made[..., first : first + 2] = given.w[3:5]
    return np.moveaxis(made, -1, spot.dim)


register(
    "update", _write_update, _compute_update, lambda rng: (rng.choice([None, 0, 1]),)
)


# Rows at indices, known ones or the argument `j`


def _write_take(
    text: Writer, spot: Spot, x: Tensor, known: tuple[int, ...] | None
) -> Tensor:
    indices = text.named["j"]
    if known is not None:
        indices = text.constant([[one] for one in known], (3, 1), "i32")
    others = [d for d in range(len(x.shape)) if d != spot.dim]
    numbers = f"offset_dims = {others}, collapsed_slice_dims = [{spot.dim}], "
    numbers += f"start_index_map = [{spot.dim}], index_vector_dim = 1"
    attrs = f"dimension_numbers = #stablehlo.gather<{numbers}>, "
    attrs += f"slice_sizes = {ints(x.sized(spot.dim, 1))}, indices_are_sorted = false"
    return text.op("gather", [x, indices], x.sized(spot.dim, 3), attrs)


def _compute_take(
    given: Given, spot: Spot, x: Array, known: tuple[int, ...] | None
) -> Array:
    indices = given.j if known is None else np.array(known)
    return np.take(x, np.clip(indices, 0, x.shape[spot.dim] - 1), spot.dim)


register(
    "take",
    _write_take,
    _compute_take,
    lambda rng: (rng.choice([(2, 0, 1), (0, 1, 9), None]),),
)


# Orders and shapes

register(
    "reverse",
    lambda text, spot, x: text.op(
        "reverse", [x], x.shape, f"dimensions = {ints([spot.dim])}"
    ),
    lambda given, spot, x: np.flip(x, spot.dim),
)


def _turned(rank: int, lead: int) -> list[int]:
    return [*range(lead), *reversed(range(lead, rank))]


def _write_transpose(text: Writer, spot: Spot, x: Tensor) -> Tensor | None:
    order = _turned(len(x.shape), spot.lead)
    if order == sorted(order):
        return None
    shape = [x.shape[d] for d in order]
    return text.op("transpose", [x], shape, f"permutation = {ints(order)}")


register(
    "transpose",
    _write_transpose,
    lambda given, spot, x: x.transpose(_turned(x.ndim, spot.lead)),
)


def _merged(shape: tuple[int, ...], lead: int) -> tuple[int, ...]:
    return (*shape[:lead], int(np.prod(shape[lead:])))


def _write_merge(text: Writer, spot: Spot, x: Tensor) -> Tensor | None:
    shape = _merged(x.shape, spot.lead)
    return text.op("reshape", [x], shape) if shape != x.shape else None


register(
    "merge",
    _write_merge,
    lambda given, spot, x: x.reshape(_merged(x.shape, spot.lead)),
)


def _split(shape: tuple[int, ...], major: bool) -> tuple[int, ...]:
    half = shape[-1] // 2
    return (*shape[:-1], *((2, half) if major else (half, 2)))


def _write_split(text: Writer, spot: Spot, x: Tensor, major: bool) -> Tensor | None:
    if len(x.shape) - spot.lead != 1 or x.shape[-1] % 2:
        return None
    return text.op("reshape", [x], _split(x.shape, major))


def _flip_coin(rng: random.Random) -> Options:
    return (rng.random() < 0.5,)


register(
    "split",
    _write_split,
    lambda given, spot, x, major: x.reshape(_split(x.shape, major)),
    _flip_coin,
)


def _write_spread(text: Writer, spot: Spot, x: Tensor, count: int) -> Tensor | None:
    rank = len(x.shape)
    if rank - spot.lead > 1:
        return None
    return text.broadcast(x, range(rank), (*x.shape, count))


register(
    "spread",
    _write_spread,
    lambda given, spot, x, count: np.repeat(x[..., None], count, -1),
    lambda rng: (2,),
)
