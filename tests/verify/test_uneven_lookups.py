"""Look-ups in tiles that are not even: of a table that is longer than what is meant."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir


def picked(h: Array, table: Array, labels: Array) -> Array:
    """Of sixteen columns thirteen count; labels out of range count as the last."""
    logits = (h @ table.T)[:, :13]
    return jnp.take_along_axis(logits, labels[:, None], 1, mode="clip")[:, 0] * 2


@pytest.fixture(scope="module")
def looked_up() -> partir.Partitioned:
    shapes = (((5, 4), "float32"), ((16, 4), "float32"), ((5,), "int32"))
    rows = partir.ManualPartition({"table": 0}, axis="B")
    args = [jax.ShapeDtypeStruct(*one) for one in shapes]
    return partir.partition(picked, {"B": 4}, [rows], args=args)


def test_it_is_proved(looked_up: partir.Partitioned) -> None:
    assert looked_up.collectives["all_reduce"] == 1
    assert not looked_up.verify().not_proved


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("dense<12> : tensor<i32>", "dense<13> : tensor<i32>", id="end"),
        pytest.param("dense<12> : tensor<i32>", "dense<15> : tensor<i32>", id="table"),
        pytest.param("dense<4> : tensor<i32>", "dense<3> : tensor<i32>", id="tiles"),
        pytest.param("direction EQ>", "direction NE>", id="mask"),
        pytest.param('lo.add"', 'lo.maximum"', id="largest"),
        pytest.param('lo.subtract"', 'lo.add"', id="shift"),
    ],
)
def test_mistakes_are_found(
    looked_up: partir.Partitioned, right: str, wrong: str
) -> None:
    before, found, after = looked_up.stablehlo().rpartition(right)
    assert found
    assert looked_up.proof(before + wrong + after).not_proved
