"""Padding that windows would leave out anyway is their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from tests.normal.forms import kinds, normal

pytestmark = pytest.mark.usefixtures("x64")

X = np.arange(32.0).reshape(1, 16, 2) % 7 - 3


def pad(x: Array, low: int, high: int, interior: int = 0, fill: float = 0.0) -> Array:
    return lax.pad(x, x.dtype.type(fill), ((0, 0, 0), (low, high, interior), (0, 0, 0)))


def conv(x: Array, pads: tuple[int, int] = (0, 0), **more: Any) -> Array:
    w = jnp.arange(12.0).reshape(3, 2, 2) - 5
    dims = ("NWC", "WIO", "NWC")
    return lax.conv_general_dilated(x, w, (1,), [pads], dimension_numbers=dims, **more)


def pool(
    x: Array, init: float = 0.0, do: Any = lax.add, pads: tuple[int, int] = (0, 0)
) -> Array:
    return lax.reduce_window(
        x, x.dtype.type(init), do, (1, 3, 1), (1, 2, 1), ((0, 0), pads, (0, 0))
    )


LEAST = -np.inf

JOINED: dict[str, Callable[[Array], Array]] = {
    "convolution": lambda x: conv(pad(x, 1, 1)),
    "convolution, more": lambda x: conv(pad(x, 2, 0), pads=(0, 1)),
    "convolution, spread": lambda x: conv(pad(x, 1, 2, 1)),
    "convolution, spread twice": lambda x: conv(pad(x, 1, 2, 1), lhs_dilation=(2,)),
    "convolution, cut": lambda x: conv(pad(x, -1, -2), lhs_dilation=(2,)),
    "average": lambda x: pool(pad(x, 1, 1)),
    "average, more": lambda x: pool(pad(x, 1, 1), pads=(1, 0)),
    "largest": lambda x: pool(pad(x, 1, 2, fill=LEAST), LEAST, lax.max),
    "largest, spread": lambda x: pool(pad(x, 1, 2, 1, LEAST), LEAST, lax.max),
    "product": lambda x: pool(pad(x, 1, 1, fill=1.0), 1.0, lax.mul),
}


@pytest.mark.identity("padded")
@pytest.mark.parametrize("name", JOINED)
def test_joined(name: str) -> None:
    made = kinds(normal(JOINED[name], X))
    assert "pad" not in made
    assert made.get("convolution", 0) + made.get("reduce_window", 0) == 1


AS_THEY_ARE: dict[str, Callable[[Array], Array]] = {
    "convolution, no zeros": lambda x: conv(pad(x, 1, 1, fill=1.0)),
    "convolution, cut, then padded": lambda x: conv(pad(x, -1, 0), pads=(1, 0)),
    "convolution, other dimensions": lambda x: conv(
        jnp.pad(x, ((0, 1), (1, 1), (0, 0)))
    ),
    "convolution, a tag": lambda x: conv(partir.tag(pad(x, 1, 1), "t")),
    "average, no zeros": lambda x: pool(pad(x, 1, 1, fill=1.0)),
    "average, starts elsewhere": lambda x: pool(pad(x, 1, 1), 1.0),
    "largest, of zeros": lambda x: pool(pad(x, 1, 1), LEAST, lax.max),
    "average, cut": lambda x: pool(pad(x, 1, -1)),
    "over all, which is a sum of tiles": lambda x: lax.reduce_window(
        pad(x, 1, 1), 0.0, lax.add, (1, 18, 1), (1, 1, 1), "VALID"
    ),
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_stays_as_it_is(name: str) -> None:
    assert kinds(normal(AS_THEY_ARE[name], X))["pad"] == 1


@pytest.mark.identity("pooled")
@pytest.mark.parametrize("pads", [(0, 1), (1, 1), (2, 1)])
def test_the_gradient_of_a_pool(pads: tuple[int, int]) -> None:
    """With numbers only, and where padding is chosen: nothing but least ones, nan."""

    def gradient(x: Array) -> Array:
        def loss(x: Array) -> Array:
            made = pool(x, LEAST, lax.max, pads)
            return jnp.sum(made * jnp.arange(1.0, 1 + made.shape[1])[:, None])

        return jax.grad(loss)(x)

    odd = X.copy()
    odd[0, :3], odd[0, 8], odd[0, -2:] = LEAST, np.nan, LEAST
    for x in (X, odd):
        made = kinds(normal(gradient, x))
        assert made["select_and_scatter"] == 1
        assert not made.keys() & {"pad", "slice"}


def test_a_gradient_that_is_not_cut_off_as_it_was_padded() -> None:
    def gradient(x: Array) -> Array:
        def loss(x: Array) -> Array:
            return jnp.sum(pool(x, LEAST, lax.max, (1, 0)) ** 2)

        return jax.grad(loss)(pad(x, 1, 0, fill=LEAST))[:, 2:]

    assert "slice" in kinds(normal(gradient, X))
