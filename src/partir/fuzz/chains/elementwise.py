"""Ops on elements: of one tensor, with an argument, and where a mask allows it."""

from __future__ import annotations

import random

import numpy as np

from partir.fuzz.chains.kinds import (
    COMBINED,
    NUMBERS,
    ROOM,
    Array,
    Given,
    Options,
    Spot,
    register,
)
from partir.fuzz.chains.text import Tensor, Writer

_UNARY = {"negate": np.negative, "sine": np.sin, "abs": np.abs}


def _unary(kind: str) -> None:
    compute = _UNARY[kind]
    register(
        kind,
        lambda text, spot, x: text.op(kind, [x], x.shape),
        lambda given, spot, x: compute(x),
    )


for _kind in _UNARY:
    _unary(_kind)

register(
    "square",
    lambda text, spot, x: text.binary("multiply", x, x),
    lambda given, spot, x: x * x,
)


# With rows of an argument, from a shift on


def _draw_argument(rng: random.Random) -> Options:
    kind = rng.choice(["add", "multiply", "add", "multiply", "maximum"])
    return kind, rng.randrange(3), rng.choice("wp")


def _write_argument(
    text: Writer, spot: Spot, x: Tensor, kind: str, shift: int, name: str
) -> Tensor | None:
    size = x.shape[spot.dim]
    if size + shift > ROOM or name not in text.named:
        return None
    argument = text.named[name]
    last = len(argument.shape) - 1
    rows = text.slice(argument, last, shift, shift + size)
    dims = [0, spot.dim] if last else [spot.dim]
    return text.binary(kind, x, text.broadcast(rows, dims, x.shape))


def _compute_argument(
    given: Given, spot: Spot, x: Array, kind: str, shift: int, name: str
) -> Array:
    argument = given.w if name == "w" else given.p
    rows = argument[..., shift : shift + x.shape[spot.dim]]
    made: Array = COMBINED[kind](x, spot.along(x, rows))
    return made


register("argument", _write_argument, _compute_argument, _draw_argument)


# Masks


def _write_mask(
    text: Writer, spot: Spot, x: Tensor, limit: int, number: float
) -> Tensor:
    attrs = f"iota_dimension = {spot.dim} : i64"
    rows = text.op("iota", [], x.shape, attrs, dtype="i32")
    limits = text.constant(limit, x.shape, "i32")
    less = "comparison_direction = #stablehlo<comparison_direction LT>"
    kept = text.op("compare", [rows, limits], x.shape, less, dtype="i1")
    return text.op("select", [kept, x, text.constant(number, x.shape)], x.shape)


def _compute_mask(
    given: Given, spot: Spot, x: Array, limit: int, number: float
) -> Array:
    kept = spot.along(x, np.arange(x.shape[spot.dim]) < limit)
    return np.where(kept, x, number)


register(
    "mask", _write_mask, _compute_mask, lambda rng: (rng.choice([2, 3]), _number(rng))
)


def _number(rng: random.Random) -> float:
    return rng.choice(NUMBERS)
