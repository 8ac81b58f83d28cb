"""How much a JAX function computes, from its jaxpr: for opaque functions.

The simulator can't look into them. Products count a multiplication and an addition for
each term; of everything else each element counts one, loops are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax


class Arithmetic(NamedTuple):
    """Flops, and those of them that are in matrix products and convolutions."""

    flops: float = 0.0
    products: float = 0.0

    def plus(self, other: Arithmetic, times: float = 1.0) -> Arithmetic:
        """With another's added, so many times over."""
        flops = self.flops + other.flops * times
        return Arithmetic(flops, self.products + other.products * times)


def arithmetic(fn: Callable[..., Any], operands: Sequence[Any]) -> Arithmetic:
    """Of one call; `operands` are shapes.

    >>> import jax.numpy as jnp
    >>> x = jax.ShapeDtypeStruct((4, 8), "float32")
    >>> arithmetic(lambda x: jnp.tanh(x @ x.T), [x])
    Arithmetic(flops=272.0, products=256.0)
    """
    return _of(jax.make_jaxpr(fn)(*operands).jaxpr)


def _of(jaxpr: Any) -> Arithmetic:
    found = Arithmetic()
    for eqn in jaxpr.eqns:
        inner = [_of(one) for one in _inner(eqn.params.values())]
        if not inner:
            found = found.plus(_single(eqn))
        elif eqn.primitive.name == "cond":
            found = found.plus(max(inner))
        else:
            times = _times(eqn)
            for one in inner:
                found = found.plus(one, times)
    return found


def _inner(params: Any) -> Iterator[Any]:
    """Jaxprs among parameters, closed ones opened."""
    for value in params:
        if hasattr(value, "eqns"):
            yield value
        elif hasattr(value, "jaxpr"):
            yield value.jaxpr
        elif isinstance(value, tuple):
            yield from _inner(value)


def _times(eqn: Any) -> float:
    """How often what is inside runs: a scan's length, a kernel's grid."""
    grid = getattr(eqn.params.get("grid_mapping"), "grid", ())
    sizes = [size for size in grid if isinstance(size, int)]
    return float(eqn.params.get("length", 1) * math.prod(sizes))


_MOVING = frozenset(
    (
        "broadcast_in_dim concatenate copy dynamic_slice dynamic_update_slice gather "
        "get iota pad reshape rev scatter slice squeeze swap transpose"
    ).split()
)


def _single(eqn: Any) -> Arithmetic:
    name = eqn.primitive.name
    if name in _MOVING or not eqn.outvars:
        return Arithmetic()
    made = math.prod(getattr(eqn.outvars[0].aval, "shape", ()))
    read = [getattr(v.aval, "shape", ()) for v in eqn.invars]
    if name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        terms = math.prod(read[0][dim] for dim in contracted)
        return Arithmetic(2.0 * made * terms, 2.0 * made * terms)
    if name == "conv_general_dilated":
        features = read[1][eqn.params["dimension_numbers"].rhs_spec[0]]
        terms = math.prod(read[1]) // max(features, 1)
        return Arithmetic(2.0 * made * terms, 2.0 * made * terms)
    return Arithmetic(float(max([made, *map(math.prod, read)])), 0.0)
