"""Sorting, the largest few, and ranks."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.sketch import Sketch


def sort(sketch: Sketch) -> None:
    """One value, or another one in its order."""
    value = sketch.any(lambda v: v.rank > 0 and not v.is_complex)
    dim = sketch.rng.randrange(value.rank)
    if sketch.chance(0.5):
        sketch.do(lambda x: lax.sort(x, dimension=dim), value)
        return
    other = sketch.like(value.shape, sketch.dtype())
    keys = 1 if other.is_complex else sketch.rng.choice([1, 2])
    sketch.do(lambda x, y: lax.sort((x, y), dimension=dim, num_keys=keys), value, other)


def ranks(sketch: Sketch) -> None:
    """The order itself, which is then used to look up."""
    value = sketch.any(lambda v: v.rank > 0 and not (v.is_complex or v.is_bool))
    dim = sketch.rng.randrange(value.rank)

    def apply(x: Any) -> Any:
        places = lax.broadcasted_iota(jnp.int32, x.shape, dim)
        _, order = lax.sort((x, places), dimension=dim, num_keys=1)
        return order, jnp.take_along_axis(x, order, dim, mode="clip")

    sketch.do(apply, value)


def top(sketch: Sketch) -> None:
    """The largest few with their places."""
    value = sketch.any(lambda v: v.rank > 0 and v.shape[-1] > 0 and v.is_float)
    count = sketch.rng.randrange(1, value.shape[-1] + 1)
    sketch.do(lambda x: lax.top_k(x, count), value)


SHARES = {sort: 1.0, ranks: 0.7, top: 0.15}
