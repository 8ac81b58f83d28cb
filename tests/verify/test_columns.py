"""Indices of several columns into tiles, and indices that are known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from tests.verify.test_right_and_wrong import mistakes_missed, shape

pytestmark = pytest.mark.quick
INDEX = shape(3, dtype="int32")


def pairs(x: jax.Array, i: jax.Array, j: jax.Array) -> jax.Array:
    return jnp.sin(x[i, j])


def one_known(x: jax.Array, i: jax.Array) -> jax.Array:
    return x[i, jnp.array([1, 7, 2])]


def added(x: jax.Array, i: jax.Array, j: jax.Array, u: jax.Array) -> jax.Array:
    return x.at[i, j].add(u)


def replaced(x: jax.Array, u: jax.Array) -> jax.Array:
    return x.at[jnp.array([1, 5, 6])].set(u)


def added_to_one(x: jax.Array, u: jax.Array) -> jax.Array:
    """In one tile alone."""
    return x.at[jnp.array([4, 4, 5])].add(u)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, int]]] = {
    "the first column": (pairs, (shape(8, 2), INDEX, INDEX), {"x": 0}),
    "the second column": (pairs, (shape(2, 8), INDEX, INDEX), {"x": 1}),
    "a known column": (one_known, (shape(2, 8), INDEX), {"x": 1}),
    "scattered": (added, (shape(8, 2), INDEX, INDEX, shape(3)), {"x": 0}),
    "known rows": (replaced, (shape(8, 2), shape(3, 2)), {"x": 0}),
    "known rows of one tile": (added_to_one, (shape(8, 2), shape(3, 2)), {"x": 0}),
}


def partitioned(name: str) -> partir.Partitioned:
    fn, args, tiles = CASES[name]
    return partir.partition(
        fn, {"B": 4}, [partir.ManualPartition(tiles, "B")], args=args
    )


@pytest.mark.parametrize("name", CASES)
def test_columns_are_proved_and_no_mistake(name: str) -> None:
    p = partitioned(name)
    assert not p.verify().not_proved
    assert mistakes_missed(p) == []


@pytest.mark.parametrize("name", [name for name in CASES if "rows" not in name])
def test_columns_that_are_put_side_by_side_the_other_way_round(name: str) -> None:
    p = partitioned(name)
    text = p.stablehlo()
    *_, joined = re.finditer(r'"stablehlo.concatenate"\((%\w+), (%\w+)\)', text)
    swapped = f'"stablehlo.concatenate"({joined[2]}, {joined[1]})'
    wrong = text[: joined.start()] + swapped + text[joined.end() :]
    assert p.proof(text).proved
    assert not p.proof(wrong).proved


@pytest.mark.parametrize("name", ["known rows", "known rows of one tile"])
@pytest.mark.parametrize("more", [-2, -1, 1, 2, 100])
def test_known_rows_that_are_shifted_otherwise(name: str, more: int) -> None:
    """By one row too many or too few, or out of all tiles."""
    p = partitioned(name)
    text = p.stablehlo()
    *_, shift = re.finditer(r'(%\w+) = "stablehlo.subtract"\((%\w+), (%\w+)\)', text)
    (type_,) = re.findall(rf"{shift[2]} = .* -> (tensor<[^>]*>)", text)
    again = "\n".join(
        (
            f"%more = stablehlo.constant dense<{more}> : {type_}",
            f"%moved = stablehlo.add {shift[2]}, %more : {type_}",
            shift[0].replace(shift[2], "%moved"),
        )
    )
    wrong = text[: shift.start()] + again + text[shift.end() :]
    assert not p.proof(wrong).proved
