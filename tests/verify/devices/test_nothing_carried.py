"""Loops that carry values without elements, as the gradients of tree-like scans do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir


def smallest_so_far(x: Array, steps: Array) -> Array:
    def turn(carry: Array, step: Array) -> tuple[Array, Array]:
        made = lax.associative_scan(jnp.minimum, carry + step, axis=1)
        return made, made.sum()

    return lax.scan(turn, x, steps)[1]


def gradient(x: Array, steps: Array) -> Array:
    return jax.grad(lambda x: smallest_so_far(x, steps).sum())(x)


def test_loops_that_carry_nothing_are_proved_by_induction() -> None:
    args = [jax.ShapeDtypeStruct(s, "float32") for s in ((16, 8), (4, 16, 8))]
    tiles = partir.ManualPartition({"x": 0, "steps": 1}, axis="B")
    p = partir.partition(gradient, {"B": 8}, [tiles], args=args)
    text = p.stablehlo()
    assert "x0xf32>" in text
    found = p.verify()
    assert found.proved
    assert not found.written_out
    wrong = p.proof(text.replace('"stablehlo.minimum"', '"stablehlo.maximum"'))
    assert wrong.not_proved
