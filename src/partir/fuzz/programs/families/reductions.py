"""Reductions by every monoid and by bodies, and what models do with their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.sketch import NoFit, Sketch, Var, identity


def _combiners(value: Var) -> list[Callable[[Any, Any], Any]]:
    if value.is_bool:
        return [lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor]
    found: list[Callable[[Any, Any], Any]] = [lax.add, lax.add, lax.mul]
    if not value.is_complex:
        found += [lax.max, lax.min]
    if value.is_integer:
        found += [lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor]
    return found


def _dims(sketch: Sketch, value: Var) -> tuple[int, ...]:
    found = tuple(d for d in range(value.rank) if sketch.chance(0.5))
    return found or (sketch.rng.randrange(value.rank),)


def reduce(sketch: Sketch) -> None:
    """By a monoid, from its identity, from another number, or from a value."""
    value = sketch.any(lambda v: v.rank > 0)
    combine, dims = sketch.rng.choice(_combiners(value)), _dims(sketch, value)
    if sketch.chance(0.3) and combine is not lax.bitwise_xor:
        start = sketch.like((), value.dtype)
        sketch.do(lambda x, s: lax.reduce(x, s, combine, dims), value, start)
        return
    # XLA forgets what xor starts from where the dimension's size is 1.
    xor = combine is lax.bitwise_xor
    number = sketch.constant(value.dtype) * (0 if xor else 1)
    sketch.do(lambda x: lax.reduce(x, number, combine, dims), value)


def total(sketch: Sketch) -> None:
    """A plain sum, in its own type or in a wider one."""
    value = sketch.any(lambda v: v.rank > 0 and not v.is_bool)
    dims, dtype = _dims(sketch, value), sketch.dtype()
    wide = dtype if sketch.chance(0.2) and dtype != "bool" else value.dtype
    if value.is_complex:
        wide = value.dtype
    sketch.do(lambda x: jnp.sum(x, dims, dtype=wide), value)


def then_used(sketch: Sketch) -> None:
    """A sum, then multiplied, divided, added to another sum, or summed again."""
    value = sketch.any(lambda v: v.rank > 0 and not v.is_bool)
    dims = _dims(sketch, value)
    summed = sketch.one(lambda x: jnp.sum(x, dims, dtype=x.dtype), value)
    way = sketch.rng.choice(["scale", "divide", "add", "again", "product"])
    if way == "divide" and value.is_integer:
        way = "scale"
    if way in ("scale", "divide"):
        op = lax.mul if way == "scale" else lax.div
        sketch.do(op, summed, sketch.like(summed.shape, summed.dtype))
    elif way == "add":
        other = sketch.like(value.shape, value.dtype)
        sketch.do(lambda s, x: s + jnp.sum(x, dims, dtype=x.dtype), summed, other)
    elif way == "again" and summed.rank:
        sketch.do(lambda s: jnp.sum(s, 0, dtype=s.dtype), summed)
    else:
        sketch.do(lambda s, x: jnp.expand_dims(s, dims) * x, summed, value)


def softmax(sketch: Sketch) -> None:
    """Maximum, exponential, sum and quotient."""
    value = sketch.any(lambda v: v.rank > 0 and v.is_float and v.size > 0)
    dim = sketch.rng.randrange(value.rank)

    def apply(x: Any) -> Any:
        high = lax.expand_dims(jnp.max(x, dim), (dim,))
        raised = lax.exp(x - high)
        return raised / lax.expand_dims(jnp.sum(raised, dim), (dim,))

    sketch.do(apply, value)


def variance(sketch: Sketch) -> None:
    """A mean taken away, squares summed."""
    value = sketch.any(lambda v: v.rank > 0 and v.is_float and v.size > 0)
    dim = sketch.rng.randrange(value.rank)

    def apply(x: Any) -> Any:
        count = jnp.asarray(x.shape[dim], x.dtype)
        mean = lax.expand_dims(jnp.sum(x, dim) / count, (dim,))
        return jnp.sum((x - mean) * (x - mean), dim) / count

    sketch.do(apply, value)


def with_body(sketch: Sketch) -> None:
    """Two values reduced together by a body that is no single op."""
    value = sketch.any(lambda v: v.rank > 0 and (v.is_integer or v.is_float))
    other = sketch.like(value.shape, value.dtype)
    dims = _dims(sketch, value)
    least, most = (identity(way, value.dtype) for way in ("max", "min"))
    zero = identity("add", value.dtype)

    def both(a: Any, b: Any) -> Any:
        return a[0] + b[0], lax.max(a[1], b[1])

    def largest(a: Any, b: Any) -> Any:
        first = lax.bitwise_or(
            lax.gt(a[0], b[0]),
            lax.bitwise_and(lax.eq(a[0], b[0]), lax.lt(a[1], b[1])),
        )
        return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])

    body, numbers = sketch.rng.choice([(both, (zero, least)), (largest, (least, most))])
    sketch.do(lambda x, y: lax.reduce((x, y), numbers, body, dims), value, other)


def extreme(sketch: Sketch) -> None:
    """Where the largest or the smallest is."""
    value = sketch.any(lambda v: v.rank > 0 and not (v.is_complex or v.is_bool))
    dim = sketch.rng.randrange(value.rank)
    if not value.shape[dim]:
        raise NoFit
    find = sketch.rng.choice([lax.argmax, lax.argmin])
    sketch.do(lambda x: find(x, dim, jnp.int32), value)


def counted(sketch: Sketch) -> None:
    """How often something holds: a mask, converted and summed."""
    value = sketch.any(lambda v: v.rank > 0 and not v.is_complex)
    dims, number = _dims(sketch, value), sketch.constant(value.dtype)
    dtype = sketch.rng.choice([d for d in (*sketch.dtypes, "int32") if d != "bool"])
    sketch.do(lambda x: jnp.sum((x > number).astype(dtype), dims, dtype=dtype), value)


SHARES = {
    reduce: 3.0,
    total: 4.0,
    then_used: 4.0,
    softmax: 0.7,
    variance: 0.5,
    with_body: 1.0,
    extreme: 1.0,
    counted: 1.0,
}
