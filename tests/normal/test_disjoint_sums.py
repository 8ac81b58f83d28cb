"""Sums of parts with zeros around them are concatenations, if they fill the whole."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jax.experimental import io_callback

import partir
from tests.normal.forms import kinds, normal

pytestmark = pytest.mark.usefixtures("x64")

X = np.arange(1.0, 13.0)


def pad(x: Array, low: int, high: int, fill: float = 0.0) -> Array:
    return lax.pad(x, np.asarray(fill, x.dtype), ((low, high, 0),))


JOINED: dict[str, Callable[[Array], Array]] = {
    "two": lambda x: pad(x, 0, 12) + pad(2 * x, 12, 0),
    "three, out of order": lambda x: (
        pad(x, 12, 12) + pad(-x, 24, 0) + pad(x * x, 0, 24)
    ),
    "three, the other way": lambda x: (
        pad(x, 12, 12) + (pad(-x, 24, 0) + pad(x * x, 0, 24))
    ),
    "cut at the edges": lambda x: pad(x, -4, 6) + pad(-x, 8, -6),
}


@pytest.mark.identity("disjoint")
@pytest.mark.parametrize("name", JOINED)
def test_joined(name: str) -> None:
    made = kinds(normal(JOINED[name], X))
    assert made["concatenate"] == 1
    assert "add" not in made


AS_THEY_ARE: dict[str, Callable[[Array], Array]] = {
    "a gap": lambda x: pad(x, 0, 13) + pad(-x, 13, 0),
    "a gap at the end": lambda x: pad(x, 0, 13) + pad(-x, 12, 1),
    "overlapping": lambda x: pad(x, 0, 11) + pad(-x, 11, 0),
    "no zeros": lambda x: pad(x, 0, 12, 1.0) + pad(-x, 12, 0, 1.0),
    "one is no part": lambda x: pad(x, 0, 12) + jnp.concatenate([x, x]),
    "a tag": lambda x: partir.tag(pad(x, 0, 12), "t") + pad(-x, 12, 0),
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_stays_as_it_is(name: str) -> None:
    assert kinds(normal(AS_THEY_ARE[name], X))["add"] == 1


def test_what_has_effects_is_done_though_all_of_it_is_cut_off() -> None:
    """A part that lies outside of the sum is no part of it, but was computed."""

    def both(x: Array) -> Array:
        seen = io_callback(lambda x: x, x, x)
        return pad(x, 0, 12) + (pad(-x, 12, 0) + pad(seen, 24, -12))

    made = kinds(partir.trace(both, X))
    assert made["concatenate"] == made["custom_call"] == 1
    assert "pad" not in made


def test_the_gradient_of_slices() -> None:
    """Of all that covers a value; where something is not read, zeros have to be."""

    def loss(x: Array, count: int) -> Array:
        return sum(jnp.sum(jnp.sin(x[4 * i : 4 * i + 4] * i)) for i in range(count))

    covered = kinds(normal(jax.grad(lambda x: loss(x, 3)), X))
    assert covered["concatenate"] == 1
    assert "pad" not in covered
    assert kinds(normal(jax.grad(lambda x: loss(x, 2)), X))["pad"] == 2


@pytest.mark.identity("disjoint")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bfloat16", "complex128"])
def test_edges_of_types(dtype: str) -> None:
    x = (np.arange(8) * 37 % 251).astype(jnp.dtype(dtype))
    if dtype == "bfloat16":
        x[:5] = -0.0, np.inf, np.nan, -np.inf, 1e-39

    def function(x: Array) -> Array:
        return lax.add(pad(x[3:], 0, 3), pad(x[:3], 5, 0))

    program = normal(function, x, zeros_alike=True)
    assert kinds(program) == {"roll": 1}
