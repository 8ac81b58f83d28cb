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
    function: Callable[..., Any],
    tiled: Mapping[str, int],
    *args: Any,
    results: Mapping[str, int] | None = None,
) -> partir.Partitioned:
    """Tiled over four devices, it gives what one device gives."""
    tactic = partir.ManualPartition(tiled, axis="X", outputs=results or {})
    run = partir.jit(function, X4, [tactic], compiler_options=QUICK)
    same(run(*args), jax.jit(function, compiler_options=QUICK)(*args))
    return run.partitioned(*args)


def integers(seed: int, *shape: int, low: int = -128, high: int = 128) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int8)


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# Integers and booleans add up within one type only


@pytest.mark.identity("multiplied")
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


@pytest.mark.identity("multiplied")
def test_booleans_are_one_before_a_product_counts_them() -> None:
    def reach(x: Array, q: Array, v: Array) -> tuple[Array, ...]:
        counted = jnp.matmul(x @ q, v, preferred_element_type=jnp.int32)
        return counted, (x @ q) @ v

    x, q, v = (integers(s, 16, 16) > 60 for s in range(3))
    check(reach, {"x": 1}, x, q, v)


@pytest.mark.identity("accumulated")
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


@pytest.mark.identity("divided", "pieces")
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


@pytest.mark.identity("scaled", "divided", "accumulated")
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


@pytest.mark.identity("multiplied", "transformed", "pieces")
def test_what_is_looked_up_meets_weights_that_are_not_finite() -> None:
    def products(table: Array, ids: Array, w: Array) -> tuple[Array, ...]:
        def step(total: Array, row: Array) -> tuple[Array, None]:
            return total + table[row] @ w, None

        image = table[ids].reshape(1, 1, 8)
        return (
            table[ids] @ w,
            lax.scan(step, jnp.zeros((2, 1)), jnp.stack([ids, ids + 1]))[0],
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


@pytest.mark.identity("scaled", "divided")
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


# Reductions over devices, type by type


FLOATS = "float64 float32 float16 bfloat16 float8_e5m2 float8_e4m3fn float8_e4m3b11fnuz"
INTEGERS = "bool int2 uint2 int4 int8 uint8 int16 uint16 int32 uint32 int64 uint64"
EDGES = (0.0, -0.0, 1.0, -1.5, 16.0, INF, -INF, NAN)


def edges(dtype: str, seed: int) -> Array:
    """Random rows of the extremes of a type."""
    if dtype in FLOATS or dtype == "bool":
        made = np.array(EDGES).astype(dtype)
    else:
        limits = jnp.iinfo(dtype)
        made = np.array([limits.min, limits.max, 0, 1], object).astype(dtype)
    return made[np.random.default_rng(seed).integers(0, len(made), (8, 32))]


@pytest.mark.identity("parts", "scattered", "ordered")
@pytest.mark.parametrize("scattered", [False, True])
def test_the_greatest_and_the_least(scattered: bool) -> None:
    """nan wins, wherever it is; +0 is greater than -0."""

    def extremes(x: dict[str, Array]) -> Any:
        def both(rows: Array) -> tuple[Array, ...]:
            high, low = jnp.max(rows, 0), jnp.min(rows, 0)
            if rows.dtype.name not in ("float64", "float32"):
                return high, low
            return high, low, 1 / high, 1 / low  # of zeros, the sign

        return jax.tree.map(both, x)

    types = f"{FLOATS} {INTEGERS}".split()
    x = {dtype: edges(dtype, seed) for seed, dtype in enumerate(types)}
    tiled = {f"x/{dtype}": 0 for dtype in types}
    record = check(extremes, tiled, x, results={"out/*/*": 0} if scattered else {})
    kind = "reduce_scatter" if scattered else "all_reduce"
    assert record.collectives[kind] == 2 * len(types)


@pytest.mark.identity("parts", "once", "cut")
def test_sums_and_products_wrap_around() -> None:
    def totals(x: dict[str, Array]) -> Any:
        def both(rows: Array) -> tuple[Array, ...]:
            if rows.dtype == bool:
                return jnp.all(rows, 0), jnp.any(rows, 0)
            added = lax.reduce(rows, rows.dtype.type(1), lax.add, (0,))
            return added, lax.reduce(rows, rows.dtype.type(1), lax.mul, (0,))

        return jax.tree.map(both, x)

    types = INTEGERS.split()
    x = {dtype: edges(dtype, seed) for seed, dtype in enumerate(types)}
    check(totals, {f"x/{dtype}": 0 for dtype in types}, x)


@pytest.mark.identity("parts", "once", "added")
def test_sums_of_what_is_not_finite() -> None:
    """Whatever the tiles are: an infinity of each sign makes nan, and nan stays."""

    def totals(x: Array, y: Array, start: Array) -> tuple[Array, ...]:
        begun = lax.reduce(x, start, lax.add, (0,))
        return jnp.sum(x, 0), jnp.prod(x, 0), begun, jnp.sum(x, 0) - jnp.sum(y, 0)

    x, y = edges("float64", 0), edges("float64", 1)
    for start in (-0.0, INF, NAN):
        check(totals, {"x": 0, "y": 0}, x, y, np.float64(start))


@pytest.mark.identity("parts")
def test_complex_numbers() -> None:
    def totals(x: Array, y: Array) -> tuple[Array, ...]:
        both = lax.complex(x, y)
        total = jnp.sum(both, 0)
        return total, jnp.prod(both, 0), jnp.sum(both, 0) / (2 - 1j), jnp.sum(both * 2)

    check(totals, {"x": 0}, edges("float64", 0), edges("float64", 1))
    check(totals, {"x": 0}, floats(0, 8, 32), floats(1, 8, 32))


@pytest.mark.identity("tiled")
def test_every_type_moves() -> None:
    """Gathered or left as they are."""

    def moved(x: dict[str, Array]) -> Any:
        def one(rows: Array) -> tuple[Array, ...]:
            return jnp.flip(rows, 0), jnp.flip(rows, 1)

        return jax.tree.map(one, x)

    types = f"{FLOATS} {INTEGERS} complex64".split()
    x = {dtype: edges(dtype, seed) for seed, dtype in enumerate(types[:-1])}
    x["complex64"] = floats(0, 8, 32).astype(np.complex64)
    check(moved, {f"x/{dtype}": 0 for dtype in types}, x)


@pytest.mark.identity("tiled")
def test_axes_and_dimensions_of_one_or_none() -> None:
    def small(x: Array, empty: Array, one: Array) -> tuple[Array, ...]:
        return (
            jnp.sum(x, 0),
            jnp.max(x, 0),
            empty.T @ empty,
            jnp.sum(empty, 0) + jnp.sum(one, 0),
            jnp.concatenate([empty, one]),
            x @ empty.T,
        )

    args = edges("float64", 0), np.ones((0, 32)), np.ones((1, 32))
    tactics = [
        partir.ManualPartition({"x": 0, "empty": 1}, axis="X"),
        partir.ManualPartition({"x": 0, "one": 0}, axis="Y"),
    ]
    run = partir.jit(small, {"X": 4, "Y": 1}, tactics, compiler_options=QUICK)
    same(run(*args), jax.jit(small, compiler_options=QUICK)(*args))


@pytest.mark.identity("again")
def test_conversions_move_past_gathers() -> None:
    """To narrow types, where much is out of range, and back."""
    types = "float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int8 bool"

    def converted(x: Array) -> tuple[Array, ...]:
        made = []
        for dtype in types.split():
            narrow = jnp.sort(jnp.tanh(x), 0).astype(dtype)
            wide = jnp.sort(x.astype(dtype).astype(jnp.float64), 0)
            made += [narrow, wide]
        return tuple(made)

    x = edges("float64", 0).reshape(-1) * 100.0
    record = check(converted, {"x": 0}, np.where(np.isnan(x), 1e30, x))
    # What all sorts of the first kind read is gathered once, wide; of the second kind,
    # each in its narrow type.
    assert record.collectives["all_gather"] == 1 + len(types.split())


@pytest.mark.identity("pieces")
def test_what_is_looked_up_comes_as_it_is() -> None:
    """Repeated, out of range, and of every type."""

    def found(x: dict[str, Array], ids: Array) -> Any:
        def one(table: Array) -> tuple[Array, ...]:
            row = lax.dynamic_slice(table, (ids[0], 0), (1, 32))
            return table.at[ids].get(mode="clip"), row, table[5], table[-1:] * 1

        return jax.tree.map(one, x)

    types = f"{FLOATS} {INTEGERS}".split()
    x = {dtype: edges(dtype, seed) for seed, dtype in enumerate(types)}
    tiled = {f"x/{dtype}": 0 for dtype in types}
    check(found, tiled, x, np.array([9, 3, 3, -1, 0]))


@pytest.mark.identity("parts", "once")
@pytest.mark.parametrize("tiled", [{"table": 0}, {"ids": 0, "rows": 0}])
def test_what_is_written_to_one_place(tiled: dict[str, int]) -> None:
    """Several times, out of range, or nothing at all."""

    def written(table: Array, ids: Array, rows: Array, none: Array) -> Any:
        at = table.at[ids]
        some = at.add(rows), at.multiply(rows), at.max(rows), at.min(rows)
        return *some, table.at[none].add(rows[:0]), table[none]

    ids, none = np.array([1, 1, 1, 9, -20, 3, 3, 1]), np.zeros(0, int)
    check(written, tiled, edges("float64", 0), ids, edges("float64", 1), none)


@pytest.mark.identity("moved", "added")
def test_sums_that_moved_at_the_edges() -> None:
    """Two sums that meet behind ops that only move elements, or add them."""

    def meet(x: Array, y: Array, ids: Array) -> tuple[Array, ...]:
        def two() -> tuple[Array, Array]:
            return jnp.sum(x, 0).reshape(4, 8), jnp.sum(y, 0).reshape(4, 8)

        a, b = two()
        c, d = two()
        e, f = two()
        return (
            jnp.flip(a, 1).T - b.T,
            jnp.where(ids[:, None] > 1, c[ids], jnp.zeros((4, 8))) + d,
            jnp.zeros((4, 8)).at[ids].add(e) + lax.pad(f, 0.0, [(1, -1, 0), (0, 0, 0)]),
        )

    ids = np.array([2, 2, 0, 3])
    record = check(
        meet, {"x": 0, "y": 0}, edges("float64", 0), edges("float64", 1), ids
    )
    assert record.collectives["all_reduce"] == 3


@pytest.mark.identity("accumulated", "negated")
@pytest.mark.parametrize("count", [0, 1, 3])
def test_loops_of_any_length(count: int) -> None:
    def accumulated(x: Array, y: Array, z: Array) -> tuple[Array, ...]:
        def step(carry: Any, rows: Any) -> tuple[Any, None]:
            (total, whole), (a, b) = carry, rows
            added = jnp.sum(b, 0, dtype=jnp.int8)
            return (total - jnp.sum(a, 0) / 3, whole * 3 + added), None

        zeros = jnp.zeros(32), jnp.zeros(32, jnp.int8)
        return *lax.scan(step, zeros, (x, y))[0], z

    x, y = edges("float64", 0), edges("int8", 1)
    rows = np.repeat(x[None], count, 0), np.repeat(y[None], count, 0)
    record = check(accumulated, {"x": 1, "y": 1}, *rows, x)
    assert record.collectives["all_reduce"] == (2 if count else 0)


@pytest.mark.identity("equal", "waiting")
def test_gathers_that_are_one_or_wait() -> None:
    """Siblings share a gather; what is read again much later is gathered again."""

    def read(w: Array, x: Array) -> tuple[Array, Array]:
        hidden = x @ w + (2 * x) @ w
        for _ in range(4):
            hidden = jnp.concatenate([hidden, hidden], 1)
        back = lax.dot_general(hidden[:, :16], w, (((1,), (1,)), ((), ())))
        return back, jnp.tanh(hidden)

    args = edges("float64", 0)[:, :16].T, edges("float64", 1)[:, :16]
    args = np.tile(args[0], (1, 2)), args[1]
    tactics = [partir.ManualPartition({name: 0}, axis="X") for name in "xw"]
    run = partir.jit(read, X4, tactics, compiler_options=QUICK)
    same(run(*args), jax.jit(read, compiler_options=QUICK)(*args))
    record = run.partitioned(*args)
    assert record.collectives["all_gather"] == 2
    assert "optimization_barrier" in record.stablehlo()


@pytest.mark.identity("short", "added", "accumulated")
def test_sums_of_short_tiles_meet() -> None:
    """What was cut off is infinite, and counts nowhere."""

    def meet(x: Array, y: Array, z: Array) -> tuple[Array, ...]:
        def step(total: Array, rows: Array) -> tuple[Array, None]:
            return total + jnp.sum(rows[1:], 0) / 3, None

        looped, _ = lax.scan(step, jnp.zeros(32), z)
        both = jnp.flip(jnp.sum(x[1:], 0)) - jnp.sum(y[:-1], 0)
        return both, jnp.max(x[1:], 0), x[1:].T @ y[:-1], looped

    x, y = floats(0, 8, 32), floats(1, 8, 32)
    x[0], y[-1] = INF, NAN
    check(meet, {"x": 0, "y": 0, "z": 1}, x, y, np.stack([x, 2 * x]))
