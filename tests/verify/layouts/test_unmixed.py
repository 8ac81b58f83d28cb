"""Neighbours put side by side, as the columns of indices: a row is counted by both."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir

WORDS = jax.ShapeDtypeStruct((16, 24), "int32")
TABLE = jax.ShapeDtypeStruct((12, 12), "float32")


def pairs_counted(words: Array) -> Array:
    pairs = words[:, :-1], words[:, 1:]
    return jnp.zeros((12, 12)).at[pairs].add(1.0)


def pairs_looked_up(words: Array, table: Array) -> Array:
    return table[words[:, :-1], words[:, 1:]]


def transitions(words: Array, table: Array) -> Array:
    return jax.grad(lambda t: jnp.sin(pairs_looked_up(words, t)).sum())(table)


def swapped(columns: str) -> str:
    """The second column of what is put together comes first."""
    head, both, tail = columns.partition('"stablehlo.concatenate"(')
    operands, rest = tail.split(")", 1)
    one, other = operands.split(", ")
    return f"{head}{both}{other}, {one}){rest}"


@pytest.mark.parametrize("fn", [pairs_counted, pairs_looked_up, transitions])
def test_pairs_of_neighbours_are_proved(fn: object) -> None:
    args = (WORDS, TABLE)[: fn.__code__.co_argcount]  # type: ignore[attr-defined]
    by_rows = partir.ManualPartition({"words": 0}, axis="B")
    p = partir.partition(fn, {"B": 8}, [by_rows], args=args)
    found = p.verify()
    assert found.proved
    assert not found.written_out
    wrong = p.proof(swapped(p.stablehlo()))
    assert wrong.not_proved
