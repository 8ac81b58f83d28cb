"""Ops that move data: shapes, slices, pads, concatenations, repetitions."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.draft import Draft, NoFit, Var


def _ranked(draft: Draft) -> Var:
    return draft.any(lambda v: v.rank > 0)


def transpose(draft: Draft) -> None:
    """Dimensions in another order."""
    value = draft.any(lambda v: v.rank > 1)
    order = draft.rng.sample(range(value.rank), value.rank)
    draft.do(lambda x: lax.transpose(x, order), value)


def reshape(draft: Draft) -> None:
    """Dimensions merged, split, or both."""
    value = _ranked(draft)
    shape = list(value.shape)
    for _ in range(draft.rng.choice([1, 1, 2])):
        place = draft.rng.randrange(len(shape))
        if len(shape) > 1 and draft.chance(0.5):
            place = min(place, len(shape) - 2)
            shape[place : place + 2] = [math.prod(shape[place : place + 2])]
        else:
            shape[place : place + 1] = _split(draft, shape[place])
    draft.do(lambda x: lax.reshape(x, tuple(shape)), value)


def _split(draft: Draft, size: int) -> list[int]:
    parts = [n for n in range(1, size + 1) if size % n == 0] or [1]
    part = draft.rng.choice(parts)
    return [part, size // part]


def broadcast(draft: Draft) -> None:
    """New dimensions among the old ones, or ones of size 1 repeated."""
    value = draft.any(lambda v: v.rank < 4)
    shape = list(value.shape)
    dims = list(range(value.rank))
    for _ in range(draft.rng.choice([1, 1, 2])):
        place = draft.rng.randrange(len(shape) + 1)
        shape.insert(place, draft.rng.choice(draft.sizes))
        dims = [d + (d >= place) for d in dims]
    whole = [
        draft.rng.choice(draft.sizes) if d in dims and n == 1 else n
        for d, n in enumerate(shape)
    ]
    draft.do(lambda x: lax.broadcast_in_dim(x, tuple(whole), dims), value)


def cut(draft: Draft) -> None:
    """A slice, perhaps with strides."""
    value = _ranked(draft)
    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    for size in value.shape:
        if draft.chance(0.5):
            starts.append(0)
            limits.append(size)
            strides.append(1)
            continue
        start = draft.rng.randrange(size) if size else 0
        starts.append(start)
        limits.append(draft.rng.randrange(start, size) + 1 if size else 0)
        strides.append(draft.rng.choice([1, 1, 2, 3]))
    draft.do(lambda x: lax.slice(x, starts, limits, strides), value)


def pad(draft: Draft) -> None:
    """Before, behind and between; less than nothing cuts off."""
    value = _ranked(draft)
    edges = []
    for _ in value.shape:
        low, high = (draft.rng.choice([0, 0, 1, 2, -1]) for _ in range(2))
        edges.append((low, high, draft.rng.choice([0, 0, 0, 1, 2])))
    fill = draft.like((), value.dtype)
    if draft.chance(0.6):
        number = draft.constant(value.dtype)
        draft.do(lambda x: lax.pad(x, number, edges), value)
    else:
        draft.do(lambda x, f: lax.pad(x, f, edges), value, fill)


def concatenate(draft: Draft) -> None:
    """Two or three values, one perhaps twice."""
    value = _ranked(draft)
    dim = draft.rng.randrange(value.rank)
    parts = [value]
    for _ in range(draft.rng.choice([1, 1, 2])):
        shape = list(value.shape)
        shape[dim] = draft.rng.choice([*draft.sizes, shape[dim], shape[dim]])
        parts.append(draft.like(shape, value.dtype))
    draft.rng.shuffle(parts)
    draft.do(lambda *xs: lax.concatenate(xs, dim), *parts)


def reverse(draft: Draft) -> None:
    """Some dimensions backwards."""
    value = _ranked(draft)
    dims = [d for d in range(value.rank) if draft.chance(0.6)] or [0]
    draft.do(lambda x: lax.rev(x, dims), value)


def roll(draft: Draft) -> None:
    """Two slices change places."""
    value = _ranked(draft)
    dim = draft.rng.randrange(value.rank)
    shift = draft.rng.randrange(-2, 4)
    draft.do(lambda x: jnp.roll(x, shift, dim), value)


def halves(draft: Draft) -> None:
    """Rotary's pattern: one half negated, the halves changed."""
    value = draft.any(lambda v: v.rank > 0 and v.shape[-1] > 1 and not v.is_bool)
    middle = value.shape[-1] // 2

    def apply(x: Any) -> Any:
        left, right = x[..., :middle], x[..., middle:]
        return jnp.concatenate([-right, left], -1) * x

    draft.do(apply, value)


def squeeze(draft: Draft) -> None:
    """One index of a dimension, kept or dropped."""
    value = draft.any(lambda v: v.rank > 0 and all(v.shape))
    dim = draft.rng.randrange(value.rank)
    place, keep = draft.rng.randrange(value.shape[dim]), draft.chance(0.3)
    draft.do(lambda x: lax.index_in_dim(x, place, dim, keep), value)


def iota(draft: Draft) -> None:
    """Counting along a dimension, in any type."""
    shape, dtype = draft.shape(1), draft.dtype()
    if dtype == "bool":
        raise NoFit
    dim = draft.rng.randrange(len(shape))
    draft.do(lambda: lax.broadcasted_iota(dtype, shape, dim))


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
