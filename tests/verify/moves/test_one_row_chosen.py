"""Scans over tiles: near their root, a few devices have one row each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir


@pytest.mark.parametrize("rows", [8, 32])
def test_gradients_of_products_so_far_are_proved(rows: int) -> None:
    def loss(decay: Array, x: Array) -> Array:
        return jnp.sum(jnp.cumprod(decay, 1) * x)

    args = [jax.ShapeDtypeStruct((64, rows), "float32")] * 2
    tiles = partir.ManualPartition({"x": 1}, axis="B")
    p = partir.partition(jax.grad(loss), {"B": 2}, [tiles], args=args)
    found = p.verify()
    assert found.proved
    assert not found.written_out
    text = p.stablehlo()
    wrong = text.replace("direction EQ>", "direction NE>", 1)
    assert text != wrong
    assert p.proof(wrong).not_proved
