"""Sums over devices at the edges of their types: what moved is as on one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from tests.e2e.compare import QUICK

pytestmark = pytest.mark.usefixtures("x64")

X4 = {"X": 4}
INF, NAN = np.inf, np.nan


def same(got: Any, want: Any) -> None:
    """Equal but for the order of adding floats; nan and inf are where they were."""
    for left, right in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert left.dtype == right.dtype
        a, b = np.asarray(left), np.asarray(right)
        if b.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b)
        else:
            wide = complex if b.dtype.kind == "c" else np.float64
            rtol = 1e-9 if b.dtype.itemsize == 8 else 1e-6
            np.testing.assert_allclose(
                a.astype(wide), b.astype(wide), rtol=rtol, atol=1e-300
            )


def check(
    function: Callable[..., Any], tiled: Mapping[str, int], *args: Any
) -> partir.Partitioned:
    """Tiled over four devices, it gives what one device gives."""
    schedule = [partir.ManualPartition(dict(tiled), axis="X")]
    run = partir.jit(function, X4, schedule, compiler_options=QUICK)
    same(run(*args), jax.jit(function, compiler_options=QUICK)(*args))
    return run.partitioned(*args)


def integers(seed: int, *shape: int, low: int = -128, high: int = 128) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int8)


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# Integers and booleans add up within one type only


def test_integers_wrap_around_before_a_product_widens_them() -> None:
    def products(x: Array, w: Array) -> tuple[Array, ...]:
        def total() -> Array:
            return jnp.sum(x, 0, dtype=jnp.int8)

        image, kernel = total().reshape(1, 16, 16), w.T.reshape(2, 16, 1)
        wide = lax.conv_general_dilated(
            image, kernel, (1,), "VALID", preferred_element_type=jnp.int32
        )
        product = jnp.matmul(total(), w, preferred_element_type=jnp.int32)
        return product, wide, total() @ w

    check(products, {"x": 0}, integers(0, 4, 16, 16), integers(1, 16, 2))


def test_booleans_are_one_before_a_product_counts_them() -> None:
    def reach(x: Array, q: Array, v: Array) -> tuple[Array, ...]:
        counted = jnp.matmul(x @ q, v, preferred_element_type=jnp.int32)
        return counted, (x @ q) @ v

    x, q, v = (integers(s, 16, 16) > 60 for s in range(3))
    check(reach, {"x": 1}, x, q, v)


def test_integers_wrap_around_in_loops() -> None:
    def steps(x: Array, w: Array) -> tuple[Array, Array]:
        def wide(total: Array, row: Array) -> tuple[Array, None]:
            small = jnp.sum(row, 0, dtype=jnp.int8)
            product = jnp.matmul(small, w, preferred_element_type=jnp.int32)
            return total + product, None

        def narrow(total: Array, row: Array) -> tuple[Array, None]:
            return total + jnp.sum(row, 0, dtype=jnp.int8) @ w, None

        zeros = jnp.zeros((16, 2), jnp.int32)
        return (
            lax.scan(wide, zeros, x)[0],
            lax.scan(narrow, zeros.astype(jnp.int8), x)[0],
        )

    record = check(steps, {"x": 1}, integers(0, 3, 4, 16, 16), integers(1, 16, 2))
    assert record.collectives["all_reduce"] == 3 + 1  # a sum each time; one at the end


# Floats move through a factor only if it is finite for certain


def test_what_is_looked_up_may_be_divided_by_zero() -> None:
    def divided(table: Array, ids: Array, t: Array) -> Array:
        return jnp.sum(table[ids] / t, -1)

    check(divided, {"table": 0}, floats(0, 8, 4), np.array([1, 5]), np.eye(4)[0])


FACTORS: dict[str, Callable[[Array, Array], Array]] = {
    "multiplied": lambda a, t: a * t,
    "divided": lambda a, t: a / t,
    "by a number": lambda a, t: a * INF,
    "by nothing": lambda a, t: a / 0.0,
    "by a denormal": lambda a, t: a / 1e-310,
    "by what was finite": lambda a, t: a * jnp.exp(jnp.tanh(t) * 1e4),
}


@pytest.mark.parametrize("name", FACTORS)
def test_factors_that_are_not_finite(name: str) -> None:
    """The parts of a sum may be zero, or of another sign, where the sum is not."""

    def scaled(x: Array, w: Array, table: Array, t: Array) -> tuple[Array, ...]:
        def total(total: Array, row: Array) -> tuple[Array, None]:
            return total + FACTORS[name](row @ w, t), None

        looped, _ = lax.scan(total, jnp.zeros(4), jnp.stack([x, 2 * x]))
        found = table[jnp.array([1, 5])]
        return (
            looped,
            FACTORS[name](x @ w, t)[:1],
            jnp.sum(FACTORS[name](found, t), -1),
        )

    x, w = np.array([1.0, -1.0, 0.0, 2.0]), np.abs(floats(0, 4, 4))
    t = np.array([0.0, INF, 1.0, -3.0])
    check(scaled, {"x": 0, "table": 0}, x, w, floats(1, 8, 4), t)


def test_what_is_looked_up_meets_weights_that_are_not_finite() -> None:
    def products(table: Array, ids: Array, w: Array) -> tuple[Array, ...]:
        image = table[ids].reshape(1, 1, 8)
        return (
            table[ids] @ w,
            lax.conv(image, w.reshape(1, 1, 4)[:, :, :2], (1,), "VALID"),
            jnp.sum(jnp.fft.fft(table[ids]).real, -1),
        )

    w = np.array([INF, 1.0, -INF, 2.0]).reshape(4, 1)
    table = np.abs(floats(0, 8, 4)) + 1
    check(products, {"table": 0}, table, np.array([1, 5]), w)


# What is finite for certain


FINITE: dict[str, Callable[[Array, Array], Array]] = {
    "a number": lambda a, n: a * 0.125,
    "a divisor": lambda a, n: a / 3.0,
    "positions": lambda a, n: a * jnp.arange(4.0),
    "a mask": lambda a, n: a * (n > 2).astype(a.dtype),
    "counts": lambda a, n: a * n.astype(a.dtype),
    "waves": lambda a, n: a * jnp.cos(n / 7.0 + 1.0),
}


@pytest.mark.parametrize("name", FINITE)
def test_factors_that_are_finite(name: str) -> None:
    """Infinite sums among them: they stay what they are."""

    def scaled(x: Array, w: Array, n: Array) -> Array:
        return FINITE[name](x @ w, n) + (x * 2) @ w

    w = floats(0, 4, 4)
    w[0, 0], w[1, 1], w[2, 2] = INF, -INF, NAN
    x, n = np.array([1.0, -1.0, 0.5, 2.0]), np.arange(4)
    record = check(scaled, {"x": 0}, x, w, n)
    assert record.collectives["all_reduce"] == 1
