"""A sum, then ops that a sum may or may not move past, and another sum.

Partitioning delays reductions to merge them. What they pass must be linear in their
types: these chains go through what is, what nearly is, and what is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.sketch import FLOATS, NoFit, Sketch, Var, converted, identity

Link = Callable[[Sketch, Var], Var]


def _summed(sketch: Sketch, value: Var) -> Var:
    dim = sketch.rng.randrange(value.rank)
    return sketch.one(
        lambda x: lax.reduce(x, identity("add", value.dtype), lax.add, [dim]), value
    )


def _contracted(sketch: Sketch, value: Var) -> Var:
    dim = sketch.rng.randrange(value.rank)
    free = [sketch.rng.choice(sketch.sizes)] if sketch.chance(0.6) else []
    weights = sketch.like([value.shape[dim], *free], value.dtype)
    wide = _wider(sketch, value) if sketch.chance(0.5) else None
    numbers = (((dim,), (0,)), ((), ()))

    def apply(x: Any, w: Any) -> Any:
        return lax.dot_general(x, w, numbers, preferred_element_type=wide)

    return sketch.one(apply, value, weights)


def _wider(sketch: Sketch, value: Var) -> str:
    if value.dtype in FLOATS:
        return sketch.rng.choice(["float32", "float64"])
    return sketch.rng.choice(["int16", "int32", "int64"])


def _looked_up(sketch: Sketch, value: Var) -> Var:
    ids = sketch.index((sketch.rng.choice(sketch.sizes),))
    mode = sketch.rng.choice(["clip", "fill"])
    return sketch.one(lambda x, i: jnp.take(x, i, 0, mode=mode), value, ids)


def _scattered(sketch: Sketch, value: Var) -> Var:
    rows = sketch.rng.choice(sketch.sizes)
    ids = sketch.like((value.shape[0],), "int32", "index")

    def apply(x: Any, i: Any) -> Any:
        zeros = jnp.zeros((rows, *x.shape[1:]), x.dtype)
        return zeros.at[i].add(x, mode="drop")

    return sketch.one(apply, value, ids)


def _scaled(sketch: Sketch, value: Var) -> Var:
    """By another value, of which some numbers may be zero or infinite."""
    op = sketch.rng.choice([lax.mul, lax.mul, lax.div])
    if op is lax.div and (value.is_integer or value.is_bool):
        op = lax.mul
    return sketch.one(op, value, sketch.like(value.shape, value.dtype))


def _spread(sketch: Sketch, value: Var) -> Var:
    """By a few numbers, each for a whole row."""
    dims = [d for d in range(value.rank) if sketch.chance(0.5)]
    scale = sketch.like([value.shape[d] for d in dims], value.dtype)
    op = sketch.rng.choice([lax.mul, lax.add])
    return sketch.one(
        lambda x, s: op(x, lax.broadcast_in_dim(s, x.shape, dims)), value, scale
    )


def _with_number(sketch: Sketch, value: Var) -> Var:
    number = sketch.rng.choice([2, 3, 0, 1])
    op = sketch.rng.choice([lax.mul, lax.mul, lax.add, lax.sub])
    op = lax.div if value.dtype in FLOATS and sketch.chance(0.4) else op
    return sketch.one(lambda x: op(x, jnp.full_like(x, number)), value)


def _turned(sketch: Sketch, value: Var) -> Var:
    order = sketch.rng.sample(range(value.rank), value.rank)
    return sketch.one(lambda x: lax.transpose(x, order), value)


def _flat(sketch: Sketch, value: Var) -> Var:
    return sketch.one(lambda x: lax.reshape(x, (x.size,)), value)


def _negated(sketch: Sketch, value: Var) -> Var:
    return sketch.one(lax.neg, value)


def _converted(sketch: Sketch, value: Var) -> Var:
    dtype = sketch.dtype() if sketch.chance(0.5) else _wider(sketch, value)
    return sketch.one(lambda x: converted(x, dtype), value)


def _padded(sketch: Sketch, value: Var) -> Var:
    edges = [
        (sketch.rng.choice([0, 1, 2]), 0, sketch.rng.choice([0, 0, 1]))
        for _ in value.shape
    ]
    number = sketch.rng.choice([0, 0, 1])
    return sketch.one(lambda x: lax.pad(x, jnp.asarray(number, x.dtype), edges), value)


def _cut(sketch: Sketch, value: Var) -> Var:
    sizes = [sketch.rng.randrange(min(n, 1), n + 1) for n in value.shape]
    return sketch.one(lambda x: lax.slice(x, [0] * x.ndim, sizes), value)


def _chosen(sketch: Sketch, value: Var) -> Var:
    """By a mask; zeros elsewhere, or something else."""
    mask = sketch.like(value.shape, "bool")
    if sketch.chance(0.6):
        return sketch.one(lambda m, x: lax.select(m, x, jnp.zeros_like(x)), mask, value)
    return sketch.one(lax.select, mask, value, sketch.like(value.shape, value.dtype))


def _joined(sketch: Sketch, value: Var) -> Var:
    zeros = sketch.chance(0.5)
    return sketch.one(
        lambda x: lax.concatenate([x, jnp.zeros_like(x) if zeros else x], 0), value
    )


def _added(sketch: Sketch, value: Var) -> Var:
    """Another sum of the same shape."""
    other = sketch.like((*value.shape, sketch.rng.choice(sketch.sizes)), value.dtype)
    op = sketch.rng.choice([lax.add, lax.add, lax.sub, lax.max, lax.mul])
    dim = value.rank
    return sketch.one(
        lambda x, y: op(
            x, lax.reduce(y, identity("add", str(y.dtype)), lax.add, [dim])
        ),
        value,
        other,
    )


def _window(sketch: Sketch, value: Var) -> Var:
    shape = [sketch.rng.choice([1, 2]) for _ in value.shape]
    number = identity("add", value.dtype)
    return sketch.one(
        lambda x: lax.reduce_window(x, number, lax.add, shape, [1] * x.ndim, "SAME"),
        value,
    )


def _bent(sketch: Sketch, value: Var) -> Var:
    """Something that no sum moves past."""
    return sketch.one(
        lambda x: lax.mul(x, x) if value.is_complex else lax.abs(x), value
    )


_STARTS: list[Link] = [
    _summed,
    _summed,
    _contracted,
    _contracted,
    _looked_up,
    _scattered,
]
_LINKS: list[Link] = [
    *_STARTS,
    _contracted,
    _contracted,
    _scaled,
    _scaled,
    _spread,
    _with_number,
    _turned,
    _flat,
    _negated,
    _converted,
    _converted,
    _padded,
    _cut,
    _chosen,
    _joined,
    _added,
    _added,
    _window,
    _bent,
]


def chain(sketch: Sketch, value: Var) -> Var:
    """A sum of a value, and one to four ops behind it, each on the last."""
    value = sketch.rng.choice(_STARTS)(sketch, value)
    for _ in range(sketch.rng.choice([1, 2, 2, 3, 4])):
        if not value.rank or value.is_bool:
            return value
        value = sketch.rng.choice(_LINKS)(sketch, value)
    return value


def linear(sketch: Sketch) -> None:
    """A chain that begins with a value there is."""
    value = sketch.any(lambda v: v.rank > 0 and v.size > 0 and not v.is_bool)
    if not all(value.shape):
        raise NoFit
    chain(sketch, value)


SHARES = {linear: 9.0}
