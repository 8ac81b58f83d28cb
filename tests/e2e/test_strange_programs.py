"""Programs of many kinds, as their authors write them, under random schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest
from jax import Array, lax

import partir
from benchmarks.fuzz import difference, inner_schedule, random_schedule
from partir.partition.check import check
from tests.e2e.compare import QUICK

MESH = partir.Mesh({"A": 2, "B": 2, "C": 2})

pytestmark = pytest.mark.usefixtures("double")


def decompositions(a: Array, b: Array) -> Any:
    matrix = a @ a.mT + 4 * jnp.eye(4)
    q, r = jnp.linalg.qr(a)
    values, vectors = jnp.linalg.eigh(matrix)
    return (
        jnp.linalg.svd(a, compute_uv=False),
        q @ r,
        (vectors * values[..., None, :]) @ vectors.mT,
        jnp.linalg.slogdet(matrix),
        jnp.linalg.pinv(a),
        jsp.linalg.cho_solve((jnp.linalg.cholesky(matrix), True), b),
        jax.grad(lambda b: jnp.sum(jnp.linalg.solve(matrix, b) ** 2))(b),
    )


def convolutions(x: Array, w: Array, grouped: Array) -> Any:
    def conv(x: Array, w: Array, **options: Any) -> Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        strides = options.pop("strides", (1, 1))
        made = lax.conv_general_dilated(
            x, w, strides, "SAME", dimension_numbers=numbers, **options
        )
        return jnp.sum(jnp.sin(made))

    def loss(x: Array, w: Array, grouped: Array) -> Array:
        return (
            conv(x, w, strides=(2, 2))
            + conv(x, w, rhs_dilation=(2, 2))
            + conv(x, grouped, feature_group_count=4)
            + conv(x, w, batch_group_count=2)
            + jnp.sum(lax.conv_transpose(x, w, (2, 2), "SAME") ** 2)
        )

    return jax.value_and_grad(loss, argnums=(0, 1, 2))(x, w, grouped)


def windows(x: Array) -> Any:
    def pooled(x: Array, start: float, join: Any, size: int, **options: Any) -> Array:
        window = (1, size, size, 1)
        return lax.reduce_window(x, start, join, window, window, "SAME", **options)

    def loss(x: Array) -> Array:
        largest = pooled(x, -jnp.inf, lax.max, 2)
        summed = pooled(x, 0.0, lax.add, 3, base_dilation=(1, 2, 1, 1))
        return jnp.sum(largest**2) + jnp.sum(summed**2)

    return jax.grad(loss)(x), pooled(x, jnp.inf, lax.min, 2)


def sorted_and_searched(x: Array, k: Array) -> Any:
    return (
        lax.sort((k, x), dimension=1, num_keys=2),
        jnp.argsort(x, axis=0),
        lax.top_k(x, 3),
        jnp.median(x, axis=1),
        jnp.searchsorted(jnp.sort(x[0]), x),
        jnp.unique(k, size=6, return_inverse=True, return_counts=True),
        jnp.nonzero(k > 2, size=20),
        jax.ops.segment_max(x, k[:, 0], 6),
        jax.ops.segment_prod(x, k[:, 1], 6),
    )


def scattered(x: Array, k: Array, v: Array) -> Any:
    rows = jnp.arange(8)
    return (
        x.at[k[0]].mul(v),
        x.at[:, k[0]].max(v.mT[:8, :4]),
        x.at[rows[:, None], k].min(0.1),
        x.at[k[0], k[1]].add(v[:, 0], mode="drop"),
        jnp.take_along_axis(x, k, 1),
        x[rows, k[:, 0]],
        x[k[:, 0], 2:7],
    )


def predicated(x: Array, steps: Array) -> Any:
    """A loop that ends when its data says so, and one of its own per example."""

    def far(carry: Any) -> Array:
        return (jnp.max(jnp.abs(carry[0])) > 0.1) & (carry[1] < 30)

    def one(row: Array, n: Array) -> Any:
        return lax.while_loop(
            lambda c: c[1] < n, lambda c: (jnp.sin(c[0]) + 1, c[1] + 1), (row, 0)
        )

    closer = lax.while_loop(far, lambda c: (0.4 * c[0], c[1] + 1), (x, 0))
    return closer, jax.vmap(one)(x, steps)


def dtypes(x: Array, n: Array) -> Any:
    small, z = x.astype(jnp.bfloat16), x + 1j * x[::-1]
    tiny = small.astype(jnp.float8_e4m3fn).astype(jnp.float32)
    pairs = lax.dot_general(n, n, (((1,), (1,)), ((), ())), preferred_element_type=int)
    return (
        tiny,
        (n > 0) @ (n.mT > 0),
        pairs,
        jnp.conj(z).mT @ z,
        jnp.angle(z),
        lax.bitcast_convert_type(x, jnp.uint32),
        lax.population_count(n),
        lax.nextafter(x, -x),
        n.astype(jnp.int4).astype(int),
        lax.reduce_precision(x, 5, 10),
        (x > 0).all(1),
    )


def drawn(key: Array, x: Array) -> Any:
    first, second = jax.random.split(key)
    return (
        jax.random.permutation(first, x, axis=1, independent=True),
        jax.random.choice(second, x, (4,), axis=0, replace=False),
        jax.random.categorical(first, x),
        jax.vmap(lambda k, row: row * jax.random.uniform(k, row.shape))(
            jax.random.split(second, 8), x
        ),
        jax.random.fold_in(first, 3),
    )


def many_dimensions(a: Array, b: Array) -> Any:
    return (
        jnp.transpose(a, (7, 5, 3, 1, 0, 2, 4, 6)) + b,
        a.reshape(16, 16) @ b.reshape(16, 16),
        a.reshape(4, 4, 4, 4).sum(2),
        jnp.tensordot(a, b, 3),
        jnp.flip(a, (1, 3)),
    )


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def numbers(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, high, shape, np.int32)


PROGRAMS: dict[Callable[..., Any], tuple[Any, ...]] = {
    decompositions: (floats(0, 8, 4, 4), floats(1, 8, 4, 2)),
    convolutions: (floats(0, 4, 8, 8, 8), floats(1, 3, 3, 8, 4), floats(2, 3, 3, 2, 8)),
    windows: (floats(0, 4, 8, 8, 4),),
    sorted_and_searched: (floats(0, 8, 16), numbers(6, 8, 16)),
    scattered: (floats(0, 8, 16), numbers(8, 8, 4), floats(1, 4, 16)),
    predicated: (floats(0, 8, 4), numbers(5, 8)),
    dtypes: (floats(0, 8, 16), numbers(100, 8, 16).astype(np.int8)),
    drawn: (jax.random.key(0), floats(0, 8, 16)),
    many_dimensions: (floats(0, *[2] * 8), floats(1, *[2] * 8)),
}


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_as_on_one_device(fn: Callable[..., Any]) -> None:
    args = PROGRAMS[fn]
    expected = jax.tree.leaves(jax.jit(fn, compiler_options=QUICK)(*args))
    program = partir.trace(fn, *args)
    for make, seed in ((random_schedule, 1), (inner_schedule, 2)):
        record = partir.partition(
            fn, MESH, make(program, MESH, seed), args=args, compiler_options=QUICK
        )
        for step in record.steps:
            check(step.state)
        made = jax.tree.leaves(record.compile()(*args))
        pairs = [
            (jax.random.key_data(h), jax.random.key_data(w))
            if jax.dtypes.issubdtype(w.dtype, jax.dtypes.prng_key)
            else (h, w)
            for h, w in zip(made, expected, strict=True)
        ]
        assert difference(*zip(*pairs, strict=True)) < 1e-9, f"seed {seed}"
