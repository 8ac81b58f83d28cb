"""Ops that move data: shapes, slices, pads, concatenations, repetitions."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.sketch import NoFit, Sketch, Var


def _ranked(sketch: Sketch) -> Var:
    return sketch.any(lambda v: v.rank > 0)


def transpose(sketch: Sketch) -> None:
    """Dimensions in another order."""
    value = sketch.any(lambda v: v.rank > 1)
    order = sketch.rng.sample(range(value.rank), value.rank)
    sketch.do(lambda x: lax.transpose(x, order), value)


def reshape(sketch: Sketch) -> None:
    """Dimensions merged, split, or both."""
    value = _ranked(sketch)
    shape = list(value.shape)
    for _ in range(sketch.rng.choice([1, 1, 2])):
        place = sketch.rng.randrange(len(shape))
        if len(shape) > 1 and sketch.chance(0.5):
            place = min(place, len(shape) - 2)
            shape[place : place + 2] = [math.prod(shape[place : place + 2])]
        else:
            shape[place : place + 1] = _split(sketch, shape[place])
    sketch.do(lambda x: lax.reshape(x, tuple(shape)), value)


def _split(sketch: Sketch, size: int) -> list[int]:
    parts = [n for n in range(1, size + 1) if size % n == 0] or [1]
    part = sketch.rng.choice(parts)
    return [part, size // part]


def broadcast(sketch: Sketch) -> None:
    """New dimensions among the old ones, or ones of size 1 repeated."""
    value = sketch.any(lambda v: v.rank < 4)
    shape = list(value.shape)
    dims = list(range(value.rank))
    for _ in range(sketch.rng.choice([1, 1, 2])):
        place = sketch.rng.randrange(len(shape) + 1)
        shape.insert(place, sketch.rng.choice(sketch.sizes))
        dims = [d + (d >= place) for d in dims]
    whole = [
        sketch.rng.choice(sketch.sizes) if d in dims and n == 1 else n
        for d, n in enumerate(shape)
    ]
    sketch.do(lambda x: lax.broadcast_in_dim(x, tuple(whole), dims), value)


def cut(sketch: Sketch) -> None:
    """A slice, perhaps with strides."""
    value = _ranked(sketch)
    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    for size in value.shape:
        if sketch.chance(0.5):
            starts.append(0)
            limits.append(size)
            strides.append(1)
            continue
        start = sketch.rng.randrange(size) if size else 0
        starts.append(start)
        limits.append(sketch.rng.randrange(start, size) + 1 if size else 0)
        strides.append(sketch.rng.choice([1, 1, 2, 3]))
    sketch.do(lambda x: lax.slice(x, starts, limits, strides), value)


def pad(sketch: Sketch) -> None:
    """Before, behind and between; less than nothing cuts off."""
    value = _ranked(sketch)
    edges = []
    for _ in value.shape:
        low, high = (sketch.rng.choice([0, 0, 1, 2, -1]) for _ in range(2))
        edges.append((low, high, sketch.rng.choice([0, 0, 0, 1, 2])))
    fill = sketch.like((), value.dtype)
    if sketch.chance(0.6):
        number = sketch.constant(value.dtype)
        sketch.do(lambda x: lax.pad(x, number, edges), value)
    else:
        sketch.do(lambda x, f: lax.pad(x, f, edges), value, fill)


def concatenate(sketch: Sketch) -> None:
    """Two or three values, one perhaps twice."""
    value = _ranked(sketch)
    dim = sketch.rng.randrange(value.rank)
    parts = [value]
    for _ in range(sketch.rng.choice([1, 1, 2])):
        shape = list(value.shape)
        shape[dim] = sketch.rng.choice([*sketch.sizes, shape[dim], shape[dim]])
        parts.append(sketch.like(shape, value.dtype))
    sketch.rng.shuffle(parts)
    sketch.do(lambda *xs: lax.concatenate(xs, dim), *parts)


def reverse(sketch: Sketch) -> None:
    """Some dimensions backwards."""
    value = _ranked(sketch)
    dims = [d for d in range(value.rank) if sketch.chance(0.6)] or [0]
    sketch.do(lambda x: lax.rev(x, dims), value)


def roll(sketch: Sketch) -> None:
    """Two slices change places."""
    value = _ranked(sketch)
    dim = sketch.rng.randrange(value.rank)
    shift = sketch.rng.randrange(-2, 4)
    sketch.do(lambda x: jnp.roll(x, shift, dim), value)


def halves(sketch: Sketch) -> None:
    """Rotary's pattern: one half negated, the halves changed."""
    value = sketch.any(lambda v: v.rank > 0 and v.shape[-1] > 1 and not v.is_bool)
    middle = value.shape[-1] // 2

    def apply(x: Any) -> Any:
        left, right = x[..., :middle], x[..., middle:]
        return jnp.concatenate([-right, left], -1) * x

    sketch.do(apply, value)


def squeeze(sketch: Sketch) -> None:
    """One index of a dimension, kept or dropped."""
    value = sketch.any(lambda v: v.rank > 0 and all(v.shape))
    dim = sketch.rng.randrange(value.rank)
    place, keep = sketch.rng.randrange(value.shape[dim]), sketch.chance(0.3)
    sketch.do(lambda x: lax.index_in_dim(x, place, dim, keep), value)


def iota(sketch: Sketch) -> None:
    """Counting along a dimension, in any type."""
    shape, dtype = sketch.shape(1), sketch.dtype()
    if dtype == "bool":
        raise NoFit
    dim = sketch.rng.randrange(len(shape))
    sketch.do(lambda: lax.broadcasted_iota(dtype, shape, dim))


SHARES = {
    transpose: 2.0,
    reshape: 3.0,
    broadcast: 2.0,
    cut: 2.5,
    pad: 2.5,
    concatenate: 2.5,
    reverse: 1.0,
    roll: 0.7,
    halves: 0.5,
    squeeze: 1.0,
    iota: 1.0,
}
