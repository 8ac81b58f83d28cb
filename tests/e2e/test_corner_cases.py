"""Programs that are odd in one way each, under random schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from benchmarks.fuzz import difference, inner_schedule
from partir.partition.check import check

MESH = partir.Mesh({"A": 2, "B": 2, "C": 2})
SEEDS = (1, 2, 3)

pytestmark = pytest.mark.usefixtures("double")


def nested_accumulation(w: Array, xs: Array) -> Any:
    """Sums that an inner loop leaves are accumulated further by an outer one."""

    def outer(total: Array, x2: Array) -> Any:
        def inner(part: Array, x: Array) -> Any:
            return part + jax.grad(lambda w: jnp.sum(jnp.sin(x @ w)))(w), None

        return total + 2 * lax.scan(inner, jnp.zeros_like(w), x2)[0], None

    return lax.scan(outer, jnp.zeros_like(w), xs)[0]


def crossed_carries(a: Array, b: Array) -> Any:
    """Carries that change places, and one that is only added to."""

    def body(carry: Any) -> Any:
        step, a, b, total = carry
        return step + 1, b, 0.1 * a @ b, total + (a @ b).sum(0)

    return lax.while_loop(lambda c: c[0] < 3, body, (0, a, b, jnp.zeros(len(a))))


def branches_in_a_loop(ws: Array, x: Array, which: Array) -> Any:
    def body(x: Array, step: Any) -> Any:
        w, index = step
        branches = [lambda x: jnp.sin(x @ w), lambda x: x @ w.T, lambda x: x - x.mean()]
        x = lax.switch(index, branches, x)
        return x, jnp.max(x, axis=0)

    def loss(ws: Array) -> Array:
        return sum(jnp.sum(out**2) for out in lax.scan(body, x, (ws, which)))

    return jax.value_and_grad(loss)(ws)


def empty(a: Array, b: Array) -> Any:
    """Dimensions of size zero are there, and are never tiled."""
    joined = jnp.concatenate([a, b.T @ b @ jnp.ones((4, 8))])
    return a @ b, a.sum(0), a.sum(), joined, b[:0], jnp.pad(a, ((1, 1), (0, 0)))


def ones(a: Array, b: Array, c: Array) -> Any:
    """Dimensions of size one, broadcast, squeezed, split off and joined."""
    return (
        a + b,
        (a @ b) * c,
        a.reshape(8),
        b.reshape(2, 1, 4, 1),
        jnp.concatenate([a, a]),
        jnp.broadcast_to(c, (4, 8)),
    )


def scalars(a: Array, b: Array) -> Any:
    return a * b, a, b + 1


def the_same_again(x: Array, unused: Array) -> Any:
    """Arguments returned, results returned twice, an argument that nothing reads."""
    y = x + 1
    return x, x, y, {"again": (y, x)}


def constants(x: Array) -> Any:
    return jnp.ones((8, 8)), jnp.arange(8.0), x @ jnp.eye(8), 3


def repeated_letters(a: Array, b: Array) -> Any:
    return (
        jnp.einsum("ii->i", a),
        jnp.einsum("ii", a),
        jnp.einsum("ij,jki->k", a, b),
        jnp.einsum("ij,ij,kj->k", a, a, a),
    )


def associative(a: Array, b: Array) -> Any:
    def join(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    def loss(a: Array) -> Array:
        return jnp.sum(lax.associative_scan(join, (a, b), axis=1)[1] ** 2)

    return jax.grad(loss)(a)


def cumulative(x: Array) -> Any:
    def loss(x: Array) -> Array:
        return jnp.sum(jnp.sin(lax.cumlogsumexp(x, 1)) + jnp.cumsum(x, 0) ** 2)

    return jax.grad(loss)(x), lax.cummax(x, 0, reverse=True), jnp.cumprod(x, 1)


def spectral(x: Array) -> Any:
    def loss(x: Array) -> Array:
        y, z = jnp.fft.fft(x, axis=0), jnp.fft.rfft(x, axis=1)
        return jnp.sum(jnp.abs(y) ** 2) + jnp.sum(z.real**3 + z.imag)

    return jax.value_and_grad(loss)(x)


def whole_numbers(n: Array) -> Any:
    return (
        n.sum(0),
        n.prod(1),
        (n > 0).all(0),
        (n > 3).any(1),
        lax.reduce_xor(n, (0,)),
        jnp.bincount(jnp.abs(n).ravel(), length=8),
        jnp.argmin(n, 1),
        n // 3,
    )


def approximate(x: Array) -> Any:
    """A custom call that names a function of the module."""
    return lax.approx_max_k(x, 3), lax.approx_min_k(x, 2, reduction_dimension=0)


def clipped_gradient(x: Array, w: Array) -> Any:
    @jax.custom_vjp
    def gate(x: Array) -> Array:
        return x

    gate.defvjp(lambda x: (x, x), lambda x, g: (jnp.clip(g, -0.1, 0.1) * jnp.cos(x),))
    return jax.grad(lambda w: jnp.sum(jnp.square(gate(x @ w) @ w.T)))(w)


def solved(a: Array, b: Array) -> Any:
    def loss(b: Array) -> Array:
        matrix = a @ a.mT + 8 * jnp.eye(8)
        lower = jnp.linalg.cholesky(matrix)
        x = jax.scipy.linalg.solve_triangular(lower, b, lower=True)
        return jnp.sum(x**2) + jnp.sum(jnp.linalg.solve(matrix, b) * b)

    return jax.value_and_grad(loss)(b)


def rematerialised(x: Array, ws: Array) -> Any:
    """Barriers in a loop's body, between sums that the loop carries."""

    def layer(x: Array, w: Array) -> Any:
        return jnp.tanh(x @ w) * jnp.cos(x), None

    def loss(ws: Array, layer: Any) -> Array:
        return jnp.sum(lax.scan(layer, x, ws)[0])

    saved = jax.checkpoint_policies.everything_saveable
    layers = jax.checkpoint(layer), jax.checkpoint(layer, policy=saved)
    return [jax.grad(loss)(ws, layer) for layer in layers]


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def numbers(low: int, high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high, shape, np.int32)


SQUARE = floats(0, 8, 8)
PROGRAMS: dict[Callable[..., Any], tuple[Any, ...]] = {
    nested_accumulation: (SQUARE, floats(1, 4, 2, 8, 8)),
    crossed_carries: (SQUARE, floats(1, 8, 8)),
    branches_in_a_loop: (floats(0, 3, 8, 8), SQUARE, np.asarray([2, 0, 1], np.int32)),
    empty: (floats(0, 0, 8), floats(1, 8, 4)),
    ones: (floats(0, 1, 8), floats(1, 8, 1), floats(2, 1, 1)),
    scalars: (np.float64(2), np.int32(3)),
    the_same_again: (SQUARE, SQUARE),
    constants: (SQUARE,),
    repeated_letters: (SQUARE, floats(1, 8, 4, 8)),
    associative: (floats(0, 4, 8), floats(1, 4, 8)),
    cumulative: (SQUARE,),
    spectral: (SQUARE,),
    whole_numbers: (numbers(-5, 6, 8, 16),),
    approximate: (floats(0, 8, 16),),
    clipped_gradient: (SQUARE, floats(1, 8, 16)),
    solved: (floats(0, 2, 8, 8), floats(1, 2, 8, 4)),
    rematerialised: (SQUARE, floats(1, 2, 8, 8)),
}


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_as_on_one_device(fn: Callable[..., Any]) -> None:
    args = PROGRAMS[fn]
    expected = jax.tree.leaves(jax.jit(fn)(*args))
    program = partir.trace(fn, *args)
    for seed in SEEDS:
        schedule = inner_schedule(program, MESH, seed)
        record = partir.partition(fn, MESH, schedule, args=args)
        for step in record.steps:
            check(step.state)
        made = jax.tree.leaves(record.compile()(*args))
        assert difference(made, expected) < 1e-9, f"seed {seed}"


def test_nested_accumulation_sums_once() -> None:
    rows = partir.ManualPartition({"xs": 2}, axis="A", name="rows")
    args = PROGRAMS[nested_accumulation]
    record = partir.partition(nested_accumulation, MESH, [rows], args=args)
    assert record.collectives["all_reduce"] == sum(record.collectives.values()) == 1


def test_a_mask_of_one_range_needs_no_collective() -> None:
    """Both sides of the comparison read their own copy of the positions."""

    def causal(scores: Array) -> Array:
        place = jnp.arange(len(scores))
        return jnp.where(place[:, None] >= place, scores, -1e30)

    for dim in (0, 1):
        tactic = partir.ManualPartition({"scores": dim}, axis="A", name="tiled")
        record = partir.partition(causal, MESH, [tactic], args=(SQUARE,))
        assert not any(record.collectives.values())


def test_an_empty_dimension_is_refused() -> None:
    tactic = partir.ManualPartition({"a": 0}, axis="A", name="empty")
    with pytest.raises(partir.PartitionError, match="dimension 0 of size 0"):
        partir.partition(empty, MESH, [tactic], args=PROGRAMS[empty])
    first = partir.ManualPartition(
        {"a": partir.FIRST_DIVISIBLE_DIM}, axis="A", name="first"
    )
    record = partir.partition(empty, MESH, [first], args=PROGRAMS[empty])
    assert record.in_specs[0] == jax.P(None, "A")


def test_sums_wait_behind_barriers() -> None:
    rows = partir.ManualPartition({"ws": 1}, axis="A", name="rows")
    args = PROGRAMS[rematerialised]
    record = partir.partition(rematerialised, MESH, [rows], args=args)
    made = jax.tree.leaves(record.compile()(*args))
    assert difference(made, jax.tree.leaves(jax.jit(rematerialised)(*args))) < 1e-9
