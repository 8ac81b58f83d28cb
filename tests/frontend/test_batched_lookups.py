"""``x[arange(n), i]`` is a lookup row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir


def rows() -> Array:
    return jnp.arange(8)


def looked_up(x: Array, k: Array) -> Array:
    return x[rows(), k[:, 0]]


def several_of_each_row(x: Array, k: Array) -> Array:
    return x[rows()[:, None], k]


def filled(x: Array, k: Array) -> Array:
    return x.at[rows()[:, None], 3 * k].get(mode="fill", fill_value=7)


def between_others(x: Array, k: Array) -> Array:
    cube = x.reshape(8, 4, 4)
    return cube[rows()[:, None], k % 4, jnp.arange(4)]


def written(x: Array, k: Array) -> Array:
    return x.at[rows(), k[:, 0]].set(7)


def added(x: Array, k: Array) -> Array:
    return x.at[rows()[:, None], 3 * k].add(k, mode="drop")


def cross_entropy(x: Array, k: Array) -> Array:
    return jax.grad(lambda x: jax.nn.log_softmax(x)[rows(), k[:, 0]].sum())(x)


def counted_in_bytes(x: Array, k: Array) -> Array:
    return x[jnp.arange(8, dtype=jnp.uint8), k[:, 0]]


def per_example(x: Array, k: Array) -> Array:
    return jax.vmap(lambda x, k: x.reshape(4, 4)[jnp.arange(4), k % 4])(x, k)


BY_ROW = [
    looked_up,
    several_of_each_row,
    filled,
    between_others,
    written,
    added,
    cross_entropy,
    counted_in_bytes,
    per_example,
]


def example() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(8, 16)), rng.integers(0, 16, (8, 4), np.int32)


@pytest.mark.parametrize("fn", BY_ROW, ids=lambda fn: fn.__name__)
def test_rows_stay_on_their_devices(fn: Callable[..., Any], x64: None) -> None:
    args = example()
    schedule = partir.ManualPartition({"x": 0}, axis="B", name="rows")
    record = partir.partition(fn, {"B": 4}, [schedule], args=args)
    assert not sum(record.collectives.values())
    assert record.out_specs[0] == "B"
    np.testing.assert_allclose(record.compile()(*args), jax.jit(fn)(*args), rtol=1e-12)


def another_order(x: Array, k: Array) -> Array:
    return x[rows()[::-1], k[:, 0]]


def fewer(x: Array, k: Array) -> Array:
    return x[jnp.arange(4), k[:4, 0]]


def wrapped(x: Array, k: Array) -> Array:
    many = jnp.concatenate([x] * 32)
    return many[jnp.arange(256).astype(jnp.int8).astype(int), jnp.tile(k[:, 0], 32)]


@pytest.mark.parametrize("fn", [another_order, fewer, wrapped])
def test_what_does_not_count_row_by_row(fn: Callable[..., Any], x64: None) -> None:
    args = example()
    program = partir.trace(fn, *args)
    (gather,) = (op for op in program.ops if op.kind == "stablehlo.gather")
    assert "batching" not in gather.signature.attrs["dimension_numbers"]
    schedule = partir.ManualPartition({"x": 0}, axis="B", name="rows")
    record = partir.partition(fn, {"B": 4}, [schedule], args=args)
    np.testing.assert_allclose(record.compile()(*args), jax.jit(fn)(*args), rtol=1e-12)


def test_of_two_columns_that_count_one_is_the_batch() -> None:
    x = np.arange(64.0).reshape(8, 8)
    schedule = partir.ManualPartition({"x": 0}, axis="B", name="rows")
    record = partir.partition(
        lambda x: x[rows(), rows()], {"B": 4}, [schedule], args=(x,)
    )
    assert not sum(record.collectives.values())
    np.testing.assert_array_equal(record.compile()(x), np.diag(x))
