"""Elementwise ops: arithmetic, comparisons and masks, conversions between types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.sketch import COMPLEX, FLOATS, NoFit, Sketch, Var, converted

_NUMBERS = (lax.add, lax.sub, lax.mul, lax.add, lax.mul)
_ORDERED = (lax.max, lax.min)
_BITS = (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor)


def _quotient(x: Any, y: Any) -> Any:
    return lax.div(x, lax.bitwise_or(y, jnp.ones_like(y)))


def _remainder(x: Any, y: Any) -> Any:
    return lax.rem(x, lax.bitwise_or(y, jnp.ones_like(y)))


def _shifted(shift: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: shift(x, lax.bitwise_and(y, jnp.full_like(y, 3)))


_WHOLE = (
    _quotient,
    _remainder,
    _shifted(lax.shift_left),
    _shifted(lax.shift_right_logical),
    _shifted(lax.shift_right_arithmetic),
)
_REAL = (lax.div, lax.atan2, lax.rem, lambda x, y: lax.pow(lax.abs(x), lax.tanh(y)))


def _binary_ops(value: Var) -> tuple[Callable[[Any, Any], Any], ...]:
    if value.is_bool:
        return (*_BITS, lax.max, lax.min)
    if value.is_integer:
        return (*_NUMBERS, *_ORDERED, *_BITS, *_WHOLE)
    if value.is_complex:
        return (*_NUMBERS, lax.div)
    return (*_NUMBERS, *_NUMBERS, *_ORDERED, *_REAL)


def binary(sketch: Sketch) -> None:
    """Two values of one type; the second may be spread over the first."""
    left = sketch.any()
    op = sketch.rng.choice(_binary_ops(left))
    if left.rank and sketch.chance(0.4):
        _spread(sketch, left, op)
        return
    right = sketch.like(left.shape, left.dtype)
    operands = (left, right) if sketch.chance(0.7) else (right, left)
    sketch.do(op, *operands)


def _spread(sketch: Sketch, left: Var, op: Callable[[Any, Any], Any]) -> None:
    """The second operand has some of the first's dimensions."""
    dims = tuple(d for d in range(left.rank) if sketch.chance(0.5))
    right = sketch.like([left.shape[d] for d in dims], left.dtype)
    swapped = sketch.chance(0.3)

    def apply(x: Any, y: Any) -> Any:
        y = lax.broadcast_in_dim(y, x.shape, dims)
        return op(y, x) if swapped else op(x, y)

    sketch.do(apply, left, right)


def _unary_ops(value: Var) -> tuple[Callable[[Any], Any], ...]:
    if value.is_bool:
        return (lax.bitwise_not,)
    if value.is_integer:
        return (
            lax.neg,
            lax.abs,
            lax.sign,
            lax.bitwise_not,
            lax.population_count,
            lax.clz,
            lambda x: x * x,
        )
    if value.is_complex:
        return lax.neg, lax.conj, lax.real, lax.imag, lax.abs, lambda x: lax.exp(x / 64)
    return (
        lax.neg,
        lax.abs,
        lax.tanh,
        lax.sin,
        lax.cos,
        lax.logistic,
        lax.sign,
        lax.floor,
        lax.ceil,
        lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        lambda x: lax.sqrt(lax.abs(x)),
        lambda x: lax.rsqrt(lax.abs(x) + 1),
        lambda x: lax.log1p(lax.abs(x)),
        lambda x: lax.log(lax.abs(x)),
        lambda x: lax.exp(lax.min(x, jnp.asarray(2, x.dtype))),
        lambda x: lax.expm1(lax.tanh(x)),
        lax.cbrt,
        lambda x: x * x,
        lax.is_finite,
    )


def unary(sketch: Sketch) -> None:
    """One value."""
    value = sketch.any()
    sketch.do(sketch.rng.choice(_unary_ops(value)), value)


def scaled(sketch: Sketch) -> None:
    """A value and a number: sums move past some of these, and must not past others."""
    value = sketch.any(lambda v: not v.is_bool)
    number = sketch.constant(value.dtype)
    ops = [lax.add, lax.mul, lax.mul, lax.sub]
    ops += [] if value.is_integer else [lax.div]
    op = sketch.rng.choice(ops)
    sketch.do(lambda x: op(x, jnp.full(x.shape, number, x.dtype)), value)


def convert(sketch: Sketch) -> None:
    """To another type, wider or narrower."""
    value, dtype = sketch.any(), sketch.dtype()
    if dtype == value.dtype:
        raise NoFit
    sketch.do(lambda x: converted(x, dtype), value)


def from_parts(sketch: Sketch) -> None:
    """A complex number of its parts."""
    value = sketch.any(lambda v: v.dtype in ("float32", "float64"))
    if not set(sketch.dtypes) & set(COMPLEX):
        raise NoFit
    sketch.do(lax.complex, value, sketch.like(value.shape, value.dtype))


_COMPARISONS = (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)


def compare(sketch: Sketch) -> None:
    """Truth values."""
    left = sketch.any(lambda v: not v.is_complex)
    op = sketch.rng.choice(_COMPARISONS)
    sketch.do(op, left, sketch.like(left.shape, left.dtype))


def select(sketch: Sketch) -> None:
    """One or the other by a mask that is given."""
    value = sketch.any()
    mask = sketch.like(value.shape, "bool")
    sketch.do(lax.select, mask, value, sketch.like(value.shape, value.dtype))


def masked(sketch: Sketch) -> None:
    """A mask of positions: causal, a band, all but the first."""
    value = sketch.any(lambda v: v.rank > 0)
    rows, columns = (sketch.rng.randrange(value.rank) for _ in range(2))
    compare, shift = sketch.rng.choice(_COMPARISONS), sketch.rng.randrange(-1, 3)
    fill = sketch.constant(value.dtype)
    if value.dtype in FLOATS and sketch.chance(0.3):
        fill = jnp.asarray(-jnp.inf, value.dtype)

    def apply(x: Any) -> Any:
        counts = [lax.broadcasted_iota(jnp.int32, x.shape, d) for d in (rows, columns)]
        kept = compare(counts[0], counts[1] + shift if rows != columns else shift + 1)
        return jnp.where(kept, x, fill)

    sketch.do(apply, value)


def clamp(sketch: Sketch) -> None:
    """Between two numbers, or two values."""
    value = sketch.any(lambda v: not (v.is_complex or v.is_bool))
    shape = value.shape if sketch.chance(0.5) else ()
    low, high = (sketch.like(shape, value.dtype) for _ in range(2))
    sketch.do(lax.clamp, low, value, high)


SHARES = {
    binary: 10.0,
    unary: 5.0,
    scaled: 4.0,
    convert: 4.0,
    from_parts: 0.7,
    compare: 1.5,
    select: 2.0,
    masked: 2.0,
    clamp: 1.0,
}
