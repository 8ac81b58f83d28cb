"""Loops that a model has twice, of which devices may run one."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir

X = jax.ShapeDtypeStruct((16, 16), "float32")
Loss = Callable[[Array, Array, Array], Array]


def turned(x: Array, w: Array) -> Array:
    return lax.fori_loop(0, 3, lambda _, y: jnp.tanh(y @ w), x)


def one_twice(x: Array, v: Array, w: Array) -> Array:
    return jnp.sort(turned(x, v), axis=1) + turned(x, v) @ w


def two(x: Array, v: Array, w: Array) -> Array:
    return jnp.sort(turned(x, v), axis=1) + turned(x, w) @ w


def tiled(fn: Loss) -> partir.Partitioned:
    rows = partir.ManualPartition({"x": 0}, axis="B")
    return partir.partition(fn, {"B": 4}, [rows], args=(X, X, X))


def test_what_equal_loops_leave_is_equal() -> None:
    p = tiled(one_twice)
    assert p.program.text().count("while") == 2
    found = p.verify()
    assert found.proved
    assert not found.written_out


def test_loops_that_read_other_weights_are_two() -> None:
    assert not tiled(two).proof(tiled(two).stablehlo()).not_proved
    assert tiled(two).proof(tiled(one_twice).stablehlo()).not_proved
    assert tiled(one_twice).proof(tiled(two).stablehlo()).not_proved


def test_determinants_of_a_batch_are_proved() -> None:
    def log_determinants(x: Array) -> Array:
        return jnp.linalg.slogdet(x)[1].sum()

    batch = jax.ShapeDtypeStruct((8, 16, 16), "float32")
    rows = partir.ManualPartition({"x": 0}, axis="B")
    gradient = jax.grad(log_determinants)
    p = partir.partition(gradient, {"B": 4}, [rows], args=(batch,))
    assert p.program.text().count("while") > p.stablehlo().count("stablehlo.while")
    assert not p.verify().not_proved
