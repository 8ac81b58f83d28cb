"""Ops that combine rows: reductions, windows, products, neighbours, and sorting."""

from __future__ import annotations

import random

import numpy as np

from partir.fuzz.chains.kinds import COMBINED, Array, Given, Options, Spot, register
from partir.fuzz.chains.text import NEUTRAL, Tensor, Writer, ints

_MATRIX_ROWS = 6


def _way(rng: random.Random) -> str:
    return rng.choice(["add", "maximum"])


# Over a dimension


def _write_reduce(text: Writer, spot: Spot, x: Tensor, kind: str) -> Tensor | None:
    if len(x.shape) - spot.lead < 2:
        return None
    return text.reduce(kind, x, spot.dim)


def _reduced(kind: str, x: Array, dim: int) -> Array:
    made: Array = COMBINED[kind].reduce(x, axis=dim)
    return made


register(
    "reduce",
    _write_reduce,
    lambda given, spot, x, kind: _reduced(kind, x, spot.dim),
    lambda rng: (_way(rng),),
)


# Over copies, which a maximum leaves as they were


def _write_repeat(text: Writer, spot: Spot, x: Tensor, kind: str, count: int) -> Tensor:
    rank = len(x.shape)
    copies = text.broadcast(x, range(rank), (*x.shape, count))
    return text.reduce(kind, copies, rank)


def _compute_repeat(given: Given, spot: Spot, x: Array, kind: str, count: int) -> Array:
    return _reduced(kind, np.repeat(x[..., None], count, -1), -1)


register("repeat", _write_repeat, _compute_repeat, lambda rng: (_way(rng), 2))


# Over windows of two rows


def _write_window(
    text: Writer, spot: Spot, x: Tensor, kind: str, low: int, high: int
) -> Tensor | None:
    size = x.shape[spot.dim] + low + high - 1
    if size < 2:
        return None
    start = text.constant(NEUTRAL[kind])
    rank = len(x.shape)
    edges = [[low, high] if d == spot.dim else [0, 0] for d in range(rank)]
    attrs = f"window_dimensions = {ints(x.along(spot.dim, 2, 1))}, "
    attrs += f"padding = dense<{edges}> : tensor<{rank}x2xi64>"
    shape = x.sized(spot.dim, size)
    return text.op("reduce_window", [x, start], shape, attrs, region=kind)


def _compute_window(
    given: Given, spot: Spot, x: Array, kind: str, low: int, high: int
) -> Array:
    edges = [(low, high) if d == spot.dim else (0, 0) for d in range(x.ndim)]
    neutral = 0.0 if kind == "add" else -np.inf
    padded = np.pad(x, edges, constant_values=neutral)
    return _neighbours(spot, padded, kind)


def _neighbours(spot: Spot, x: Array, kind: str) -> Array:
    """Each row combined with the next."""
    size = x.shape[spot.dim]
    made: Array = COMBINED[kind](spot.rows(x, 0, size - 1), spot.rows(x, 1, size))
    return made


register(
    "window",
    _write_window,
    _compute_window,
    lambda rng: (_way(rng), rng.randrange(2), rng.randrange(2)),
)


# Rows with their neighbours, by slices


def _write_stencil(text: Writer, spot: Spot, x: Tensor, kind: str) -> Tensor | None:
    size = x.shape[spot.dim]
    if size < 3:
        return None
    first = text.slice(x, spot.dim, 0, size - 1)
    return text.binary(kind, first, text.slice(x, spot.dim, 1, size))


register(
    "stencil",
    _write_stencil,
    lambda given, spot, x, kind: _neighbours(spot, x, kind),
    lambda rng: (rng.choice(["add", "subtract", "maximum", "multiply"]),),
)


# Products with rows of a matrix


def _write_product(text: Writer, spot: Spot, x: Tensor, shift: int) -> Tensor | None:
    size = x.shape[spot.dim]
    if size + shift > _MATRIX_ROWS:
        return None
    rows = text.slice(text.named["m"], 0, shift, shift + size)
    attrs = "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = "
    attrs += f"[{spot.dim}], rhs_contracting_dimensions = [0]>"
    shape = (*x.shape[: spot.dim], *x.shape[spot.dim + 1 :], rows.shape[1])
    return text.op("dot_general", [x, rows], shape, attrs)


def _compute_product(given: Given, spot: Spot, x: Array, shift: int) -> Array:
    rows = given.m[shift : shift + x.shape[spot.dim]]
    return np.tensordot(x, rows, ([spot.dim], [0]))


def _draw_shift(rng: random.Random) -> Options:
    return (rng.randrange(3),)


register("product", _write_product, _compute_product, _draw_shift)


# Sorting


def _write_sort(text: Writer, spot: Spot, x: Tensor) -> Tensor:
    attrs = f"dimension = {spot.dim} : i64, is_stable = true"
    return text.op("sort", [x], x.shape, attrs, region="compare")


register("sort", _write_sort, lambda given, spot, x: np.sort(x, spot.dim))
