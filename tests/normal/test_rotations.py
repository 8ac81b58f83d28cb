"""Concatenations of slices that go round are rolls, whose slices are rolls too."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax import Array

import partir
from tests.normal.forms import kinds, normal

pytestmark = pytest.mark.usefixtures("x64")

X = np.arange(24.0).reshape(2, 12)

ONE_OP: dict[str, tuple[Callable[[Array], Array], str]] = {
    "roll": (lambda x: jnp.roll(x, 5, 1), "roll"),
    "the other way": (lambda x: jnp.roll(x, -1, 1), "roll"),
    "not at all": (lambda x: jnp.concatenate([x[:, :3], x[:, 3:]], 1), "slice"),
    "padding that wraps around": (
        lambda x: jnp.pad(x, ((0, 0), (2, 1)), mode="wrap"),
        "roll",
    ),
    "twice around": (lambda x: jnp.concatenate([x, x, x[:, :2]], 1), "roll"),
    "less than once": (lambda x: jnp.concatenate([x[:, 9:], x[:, :2]], 1), "roll"),
    "cut again": (lambda x: jnp.roll(x, 5, 1)[:, 1:-1], "roll"),
    "cut where it does not go round": (lambda x: jnp.roll(x, 5, 1)[:, 6:], "slice"),
    "nothing": (lambda x: jnp.concatenate([x[:, :0], x[:, :0]], 1), "slice"),
    "slices of a slice": (lambda x: jnp.roll(x[:, 1:], 2, 1), "roll slice"),
}


@pytest.mark.identity("rotated")
@pytest.mark.parametrize("name", ONE_OP)
def test_one_op(name: str) -> None:
    function, made = ONE_OP[name]
    assert kinds(normal(function, X)) == dict.fromkeys(made.split(), 1)


AS_THEY_ARE: dict[str, Callable[[Array], Array]] = {
    "a gap": lambda x: jnp.concatenate([x[:, 5:], x[:, 1:5]], 1),
    "overlapping": lambda x: jnp.concatenate([x[:, 5:], x[:, :6][:, 1:]], 1),
    "the wrong order": lambda x: jnp.concatenate([x[:, :5], x[:, 6:]], 1),
    "two values": lambda x: jnp.concatenate([x[:, 5:], (2 * x)[:, :5]], 1),
    "a step": lambda x: jnp.concatenate([x[:, ::2], x[:, 1::2]], 1),
    "another dimension cut": lambda x: jnp.concatenate([x[:1, 5:], x[:1, :5]], 1),
    "another dimension": lambda x: jnp.concatenate([x[:, 6:], x[:, :6]], 0),
    "a tag": lambda x: jnp.concatenate([partir.tag(x[:, 5:], "t"), x[:, :5]], 1),
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_stays_as_it_is(name: str) -> None:
    assert kinds(normal(AS_THEY_ARE[name], X))["concatenate"] == 1


def test_a_periodic_stencil_reads_what_was_padded() -> None:
    def stencil(x: Array) -> Array:
        p = jnp.pad(x, ((0, 0), (1, 1)), mode="wrap")
        return p[:, 2:] + p[:, :-2] - 2 * p[:, 1:-1]

    program = normal(stencil, X)
    assert kinds(program)["roll"] == 2
    assert all(14 not in op.signature.results[0].shape for op in program.ops)


def test_readers_far_away_read_what_was_rolled() -> None:
    """Rolled by half, then neighbours: from the value itself both would be far."""

    def function(x: Array) -> Array:
        y = jnp.roll(x, 6, 1)
        return y[:, 1:] * y[:, :-1]

    assert kinds(normal(function, X)) == {"roll": 1, "slice": 2, "multiply": 1}


@pytest.mark.identity("disjoint", "rotated")
def test_the_gradient_of_a_roll_is_a_roll() -> None:
    grad = jax.grad(lambda x: jnp.sum(jnp.sin(jnp.roll(x, 5, 1))))
    assert kinds(normal(grad, X))["roll"] == 2


@pytest.mark.identity("rotated")
@settings(max_examples=40)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 5))
def test_random_pieces(sizes: list[int], first: int) -> None:
    x = np.asarray([-0.0, np.nan, np.inf, 1.0, -2.0, 5.0])

    def function(x: Array) -> Array:
        parts, start = [], first
        for size in sizes:
            start %= len(x)
            size = min(size, len(x) - start)
            parts.append(x[start : start + size])
            start += size
        return jnp.concatenate(parts)

    program = normal(function, x)
    assert "concatenate" not in kinds(program)
