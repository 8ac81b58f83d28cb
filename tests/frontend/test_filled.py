"""Constants that are one number everywhere: each is written once in a block."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir.ir.core import Signature
from partir.ir.filled import filled, literal_of
from partir.ir.types import tensor

X = np.arange(32, dtype="float32").reshape(8, 4)


def halves(x: Array) -> Array:
    return (x * 0.5 + 3.0) * 0.5


def shapes_and_types(x: Array) -> tuple[Any, ...]:
    """Empty, complex, boolean, unsigned, 64 bits in two halves, and repeated twice."""
    empty = jnp.full((0, 4), 2.0) + x[:0]
    whole = x.astype("int32") + jnp.full((4,), 7).astype("int32")
    truth = jnp.where(jnp.full((8, 4), True), x, -x)
    return empty, x + 1j * x * (2 - 3j), whole, truth, x == jnp.inf


def in_a_loop(x: Array) -> Array:
    def body(i: Array, y: Array) -> Array:
        return y * 0.5 + jnp.where(i > 1, 0.5, 2.0)

    return jax.lax.fori_loop(0, 3, body, x * 0.5) * 0.5


def partitioned(function: Any) -> partir.Partitioned:
    tactic = partir.ManualPartition({"x": 0}, axis="B")
    return partir.partition(function, {"B": 4}, [tactic], args=(X,))


def test_numbers_are_written_once_in_a_block() -> None:
    text = partitioned(halves).stablehlo()
    assert len(re.findall(r"stablehlo\.constant", text)) == 2


@pytest.mark.parametrize("function", [halves, shapes_and_types, in_a_loop])
def test_as_on_one_device(function: Any) -> None:
    want = jax.tree.leaves(jax.jit(function)(X))
    got = jax.tree.leaves(partitioned(function).compile()(X))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_literals() -> None:
    type_, number = tensor((2, 3), "complex<f32>"), "(1.000000e+00,2.000000e+00)"
    made = filled(type_, number)
    assert literal_of(made) == number
    assert made is filled(type_, number)
    attrs = {"value": "dense<[1, 2]> : tensor<2xi32>"}
    rows = Signature.of("stablehlo.constant", attrs, (), (tensor((2,), "i32"),))
    assert literal_of(rows) is None
