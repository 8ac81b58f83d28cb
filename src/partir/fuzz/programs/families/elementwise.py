"""Elementwise ops: arithmetic, comparisons and masks, conversions between types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.draft import COMPLEX, FLOATS, Draft, NoFit, Var, converted

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


def binary(draft: Draft) -> None:
    """Two values of one type; the second may be spread over the first."""
    left = draft.any()
    op = draft.rng.choice(_binary_ops(left))
    if left.rank and draft.chance(0.4):
        _spread(draft, left, op)
        return
    right = draft.like(left.shape, left.dtype)
    operands = (left, right) if draft.chance(0.7) else (right, left)
    draft.do(op, *operands)


def _spread(draft: Draft, left: Var, op: Callable[[Any, Any], Any]) -> None:
    """The second operand has some of the first's dimensions."""
    dims = tuple(d for d in range(left.rank) if draft.chance(0.5))
    right = draft.like([left.shape[d] for d in dims], left.dtype)
    swapped = draft.chance(0.3)

    def apply(x: Any, y: Any) -> Any:
        y = lax.broadcast_in_dim(y, x.shape, dims)
        return op(y, x) if swapped else op(x, y)

    draft.do(apply, left, right)


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


def unary(draft: Draft) -> None:
    """One value."""
    value = draft.any()
    draft.do(draft.rng.choice(_unary_ops(value)), value)


def scaled(draft: Draft) -> None:
    """A value and a number: sums move past some of these, and must not past others."""
    value = draft.any(lambda v: not v.is_bool)
    number = draft.constant(value.dtype)
    ops = [lax.add, lax.mul, lax.mul, lax.sub]
    ops += [] if value.is_integer else [lax.div]
    op = draft.rng.choice(ops)
    draft.do(lambda x: op(x, jnp.full(x.shape, number, x.dtype)), value)


def convert(draft: Draft) -> None:
    """To another type, wider or narrower."""
    value, dtype = draft.any(), draft.dtype()
    if dtype == value.dtype:
        raise NoFit
    draft.do(lambda x: converted(x, dtype), value)


def from_parts(draft: Draft) -> None:
    """A complex number of its parts."""
    value = draft.any(lambda v: v.dtype in ("float32", "float64"))
    if not set(draft.dtypes) & set(COMPLEX):
        raise NoFit
    draft.do(lax.complex, value, draft.like(value.shape, value.dtype))


_COMPARISONS = (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)


def compare(draft: Draft) -> None:
    """Truth values."""
    left = draft.any(lambda v: not v.is_complex)
    op = draft.rng.choice(_COMPARISONS)
    draft.do(op, left, draft.like(left.shape, left.dtype))


def select(draft: Draft) -> None:
    """One or the other by a mask that is given."""
    value = draft.any()
    mask = draft.like(value.shape, "bool")
    draft.do(lax.select, mask, value, draft.like(value.shape, value.dtype))


def masked(draft: Draft) -> None:
    """A mask of positions: causal, a band, all but the first."""
    value = draft.any(lambda v: v.rank > 0)
    rows, columns = (draft.rng.randrange(value.rank) for _ in range(2))
    compare, shift = draft.rng.choice(_COMPARISONS), draft.rng.randrange(-1, 3)
    fill = draft.constant(value.dtype)
    if value.dtype in FLOATS and draft.chance(0.3):
        fill = jnp.asarray(-jnp.inf, value.dtype)

    def apply(x: Any) -> Any:
        counts = [lax.broadcasted_iota(jnp.int32, x.shape, d) for d in (rows, columns)]
        kept = compare(counts[0], counts[1] + shift if rows != columns else shift + 1)
        return jnp.where(kept, x, fill)

    draft.do(apply, value)


def clamp(draft: Draft) -> None:
    """Between two numbers, or two values."""
    value = draft.any(lambda v: not (v.is_complex or v.is_bool))
    shape = value.shape if draft.chance(0.5) else ()
    low, high = (draft.like(shape, value.dtype) for _ in range(2))
    draft.do(lax.clamp, low, value, high)


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
