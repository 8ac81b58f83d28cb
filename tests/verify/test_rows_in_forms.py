"""Rows that the source reads in another form than devices do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir
from tests.verify.test_right_and_wrong import mistakes_missed, shape

pytestmark = pytest.mark.quick


def one_row(x: jax.Array) -> jax.Array:
    """Numbers that change places, then are one row of several."""
    row = jnp.sin(x.sum(1))[None]
    return jnp.pad(row[:, :2], ((0, 3), (0, 0)), constant_values=1.0)


def windows(x: jax.Array) -> jax.Array:
    """Padded along both dimensions, by other numbers on the way."""
    return lax.reduce_window(jnp.abs(x), -jnp.inf, lax.max, (2, 3), (1, 1), "SAME")


def counted_once(x: jax.Array) -> jax.Array:
    """From a number that counts."""
    return lax.reduce_window(x, 3.0, lax.add, (3, 1), (1, 1), "SAME")


def merged(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
    flat = jnp.tanh(x.T @ w).reshape(-1)
    return jnp.concatenate([flat, flat]), flat.sum()


MISTAKEN: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "one row": (one_row, (shape(4, 2),), 2),
    "counted once": (counted_once, (shape(8, 2),), 4),
}


@pytest.mark.parametrize("name", MISTAKEN)
def test_rows_are_found_in_other_forms_and_no_mistake(name: str) -> None:
    fn, args, count = MISTAKEN[name]
    tactic = partir.ManualPartition({"x": 0}, "B")
    p = partir.partition(fn, {"B": count}, [tactic], args=args)
    assert not p.verify().not_proved
    assert mistakes_missed(p) == []


RIGHT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[Any]]] = {
    "windows": (
        windows,
        (shape(8, 8),),
        [
            partir.ManualPartition({"x": 0}, "A"),
            partir.ManualPartition({"x": 1}, "B"),
        ],
    ),
    "merged": (
        merged,
        (shape(5, 4), shape(5, 5)),
        [partir.ManualPartition({"x": 1}, "A", outputs={"out/0": 0})],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_rows_over_two_axes(name: str) -> None:
    fn, args, tactics = RIGHT[name]
    p = partir.partition(fn, {"A": 2, "B": 2}, tactics, args=args)
    assert not p.verify().not_proved
    other = p.stablehlo().replace("abs", "negate").replace("tanh", "logistic")
    assert p.proof(other).proved == ()
