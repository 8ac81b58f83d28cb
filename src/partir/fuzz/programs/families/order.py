"""Sorting, the largest few, and ranks."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.draft import Draft


def sort(draft: Draft) -> None:
    """One value, or another one in its order."""
    value = draft.any(lambda v: v.rank > 0 and not v.is_complex)
    dim = draft.rng.randrange(value.rank)
    if draft.chance(0.5):
        draft.do(lambda x: lax.sort(x, dimension=dim), value)
        return
    other = draft.like(value.shape, draft.dtype())
    keys = 1 if other.is_complex else draft.rng.choice([1, 2])
    draft.do(lambda x, y: lax.sort((x, y), dimension=dim, num_keys=keys), value, other)


def ranks(draft: Draft) -> None:
    """The order itself, which is then used to look up."""
    value = draft.any(lambda v: v.rank > 0 and not (v.is_complex or v.is_bool))
    dim = draft.rng.randrange(value.rank)

    def apply(x: Any) -> Any:
        places = lax.broadcasted_iota(jnp.int32, x.shape, dim)
        _, order = lax.sort((x, places), dimension=dim, num_keys=1)
        return order, jnp.take_along_axis(x, order, dim, mode="clip")

    draft.do(apply, value)


def top(draft: Draft) -> None:
    """The largest few with their places."""
    value = draft.any(lambda v: v.rank > 0 and v.shape[-1] > 0 and v.is_float)
    count = draft.rng.randrange(1, value.shape[-1] + 1)
    draft.do(lambda x: lax.top_k(x, count), value)


SHARES = {sort: 1.0, ranks: 0.7, top: 0.15}
