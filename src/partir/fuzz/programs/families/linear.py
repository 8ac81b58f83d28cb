"""A sum, then ops that a sum may or may not move past, and another sum.

Partitioning delays reductions to merge them. What they pass must be linear in their
types: these chains go through what is, what nearly is, and what is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.draft import FLOATS, Draft, NoFit, Var, converted, identity

Link = Callable[[Draft, Var], Var]


def _summed(draft: Draft, value: Var) -> Var:
    dim = draft.rng.randrange(value.rank)
    return draft.one(
        lambda x: lax.reduce(x, identity("add", value.dtype), lax.add, [dim]), value
    )


def _contracted(draft: Draft, value: Var) -> Var:
    dim = draft.rng.randrange(value.rank)
    free = [draft.rng.choice(draft.sizes)] if draft.chance(0.6) else []
    weights = draft.like([value.shape[dim], *free], value.dtype)
    wide = _wider(draft, value) if draft.chance(0.5) else None
    numbers = (((dim,), (0,)), ((), ()))

    def apply(x: Any, w: Any) -> Any:
        return lax.dot_general(x, w, numbers, preferred_element_type=wide)

    return draft.one(apply, value, weights)


def _wider(draft: Draft, value: Var) -> str:
    if value.dtype in FLOATS:
        return draft.rng.choice(["float32", "float64"])
    return draft.rng.choice(["int16", "int32", "int64"])


def _looked_up(draft: Draft, value: Var) -> Var:
    ids = draft.index((draft.rng.choice(draft.sizes),))
    mode = draft.rng.choice(["clip", "fill"])
    return draft.one(lambda x, i: jnp.take(x, i, 0, mode=mode), value, ids)


def _scattered(draft: Draft, value: Var) -> Var:
    rows = draft.rng.choice(draft.sizes)
    ids = draft.like((value.shape[0],), "int32", "index")

    def apply(x: Any, i: Any) -> Any:
        zeros = jnp.zeros((rows, *x.shape[1:]), x.dtype)
        return zeros.at[i].add(x, mode="drop")

    return draft.one(apply, value, ids)


def _scaled(draft: Draft, value: Var) -> Var:
    """By another value, of which some numbers may be zero or infinite."""
    op = draft.rng.choice([lax.mul, lax.mul, lax.div])
    if op is lax.div and (value.is_integer or value.is_bool):
        op = lax.mul
    return draft.one(op, value, draft.like(value.shape, value.dtype))


def _spread(draft: Draft, value: Var) -> Var:
    """By a few numbers, each for a whole row."""
    dims = [d for d in range(value.rank) if draft.chance(0.5)]
    scale = draft.like([value.shape[d] for d in dims], value.dtype)
    op = draft.rng.choice([lax.mul, lax.add])
    return draft.one(
        lambda x, s: op(x, lax.broadcast_in_dim(s, x.shape, dims)), value, scale
    )


def _with_number(draft: Draft, value: Var) -> Var:
    number = draft.rng.choice([2, 3, 0, 1])
    op = draft.rng.choice([lax.mul, lax.mul, lax.add, lax.sub])
    op = lax.div if value.dtype in FLOATS and draft.chance(0.4) else op
    return draft.one(lambda x: op(x, jnp.full_like(x, number)), value)


def _turned(draft: Draft, value: Var) -> Var:
    order = draft.rng.sample(range(value.rank), value.rank)
    return draft.one(lambda x: lax.transpose(x, order), value)


def _flat(draft: Draft, value: Var) -> Var:
    return draft.one(lambda x: lax.reshape(x, (x.size,)), value)


def _negated(draft: Draft, value: Var) -> Var:
    return draft.one(lax.neg, value)


def _converted(draft: Draft, value: Var) -> Var:
    dtype = draft.dtype() if draft.chance(0.5) else _wider(draft, value)
    return draft.one(lambda x: converted(x, dtype), value)


def _padded(draft: Draft, value: Var) -> Var:
    edges = [
        (draft.rng.choice([0, 1, 2]), 0, draft.rng.choice([0, 0, 1]))
        for _ in value.shape
    ]
    number = draft.rng.choice([0, 0, 1])
    return draft.one(lambda x: lax.pad(x, jnp.asarray(number, x.dtype), edges), value)


def _cut(draft: Draft, value: Var) -> Var:
    sizes = [draft.rng.randrange(1, n + 1) for n in value.shape]
    return draft.one(lambda x: lax.slice(x, [0] * x.ndim, sizes), value)


def _chosen(draft: Draft, value: Var) -> Var:
    """By a mask; zeros elsewhere, or something else."""
    mask = draft.like(value.shape, "bool")
    if draft.chance(0.6):
        return draft.one(lambda m, x: lax.select(m, x, jnp.zeros_like(x)), mask, value)
    return draft.one(lax.select, mask, value, draft.like(value.shape, value.dtype))


def _joined(draft: Draft, value: Var) -> Var:
    zeros = draft.chance(0.5)
    return draft.one(
        lambda x: lax.concatenate([x, jnp.zeros_like(x) if zeros else x], 0), value
    )


def _added(draft: Draft, value: Var) -> Var:
    """Another sum of the same shape."""
    other = draft.like((*value.shape, draft.rng.choice(draft.sizes)), value.dtype)
    op = draft.rng.choice([lax.add, lax.add, lax.sub, lax.max, lax.mul])
    dim = value.rank
    return draft.one(
        lambda x, y: op(
            x, lax.reduce(y, identity("add", str(y.dtype)), lax.add, [dim])
        ),
        value,
        other,
    )


def _window(draft: Draft, value: Var) -> Var:
    shape = [draft.rng.choice([1, 2]) for _ in value.shape]
    number = identity("add", value.dtype)
    return draft.one(
        lambda x: lax.reduce_window(x, number, lax.add, shape, [1] * x.ndim, "SAME"),
        value,
    )


def _bent(draft: Draft, value: Var) -> Var:
    """Something that no sum moves past."""
    return draft.one(lambda x: lax.mul(x, x) if value.is_complex else lax.abs(x), value)


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


def chain(draft: Draft, value: Var) -> Var:
    """A sum of a value, and one to four ops behind it, each on the last."""
    value = draft.rng.choice(_STARTS)(draft, value)
    for _ in range(draft.rng.choice([1, 2, 2, 3, 4])):
        if not value.rank or value.is_bool:
            return value
        value = draft.rng.choice(_LINKS)(draft, value)
    return value


def linear(draft: Draft) -> None:
    """A chain that begins with a value there is."""
    value = draft.any(lambda v: v.rank > 0 and v.size > 0 and not v.is_bool)
    if not all(value.shape):
        raise NoFit
    chain(draft, value)


SHARES = {linear: 9.0}
