"""Ops at the edges of their types and sizes: on devices exactly as on one.

Inputs are small whole numbers, so that the order of additions does not show.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from partir import ManualPartition
from tests.e2e.compare import QUICK, assert_same

ROWS = ManualPartition({"x": 0}, axis="X")


def whole_numbers(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, shape).astype(np.float32)


def agree(
    function: Callable[..., Any],
    mesh: dict[str, int],
    schedule: Sequence[partir.Tactic],
    *args: Any,
) -> partir.Partitioned:
    """Partitioned and on one device: every bit the same."""
    p = partir.partition(function, mesh, schedule, args=args, compiler_options=QUICK)
    made = p.compile()(*args)
    wanted = jax.jit(function, compiler_options=QUICK)(*args)
    for pair in zip(jax.tree.leaves(made), jax.tree.leaves(wanted), strict=True):
        got, want = map(np.asarray, pair)
        assert got.dtype == want.dtype
        # Any nan is a nan; but a -0 is not a 0.
        numbers = want == want
        np.testing.assert_array_equal(got == got, numbers)
        np.testing.assert_array_equal(bits(got, numbers), bits(want, numbers))
    return p


def bits(array: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Chosen numbers as bytes."""
    return np.ascontiguousarray(array[where]).view(np.uint8)


# Names of axes


def test_two_axes_and_one_whose_name_is_theirs_joined() -> None:
    def sums(x: Array, v: Array) -> tuple[Array, Array]:
        return x.sum(0), v.sum(0)

    mesh = {"data": 2, "model": 2, "data_model": 2}
    schedule = [
        ManualPartition({"x": 0}, axis="data"),
        ManualPartition({"x": 0}, axis="model"),
        ManualPartition({"v": 0}, axis="data_model"),
    ]
    agree(sums, mesh, schedule, whole_numbers(8, 4), whole_numbers(8, 4, seed=1))


# Windows


def test_window_larger_than_the_map() -> None:
    def pool(x: Array) -> Array:
        return lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")

    p = agree(pool, {"X": 4}, [ROWS], whole_numbers(8, 2, 2, 4))
    assert p.out_specs == jax.P("X")


def test_padding_that_counts_with_a_window_over_all_rows() -> None:
    def pool(x: Array, start: Array) -> Array:
        padding = ((0, 0), (1, 1))
        return lax.reduce_window(x, start, lax.add, (8, 3), (1, 1), padding)

    agree(pool, {"X": 4}, [ROWS], whole_numbers(8, 4), np.float32(3))


REVERSED = """
func.func @main(%x: tensor<2x8x4xf32>, %k: tensor<8x4x2xf32>) -> tensor<2x1x2xf32> {
  %0 = "stablehlo.convolution"(%x, %k) {
    window_reversal = array<i1: true>,
    padding = dense<0> : tensor<1x2xi64>,
    dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
    feature_group_count = 1 : i64,
    batch_group_count = 1 : i64
  } : (tensor<2x8x4xf32>, tensor<8x4x2xf32>) -> tensor<2x1x2xf32>
  return %0 : tensor<2x1x2xf32>
}"""


@pytest.mark.parametrize("argument", ["arg0", "arg1"])
def test_reversed_kernel_as_long_as_its_input(argument: str) -> None:
    x, k = whole_numbers(2, 8, 4), whole_numbers(8, 4, 2, seed=1)
    tiled = ManualPartition({argument: 1 - int(argument[-1])}, axis="X")
    p = partir.partition(partir.load(REVERSED), {"X": 4}, [tiled])
    (got,) = p.compile()(x, k)
    want = np.einsum("bsf,sfo->bo", x, k[::-1])
    np.testing.assert_array_equal(np.asarray(got)[:, 0], want)


# Types


NARROW = "bfloat16 float16 float8_e5m2 float8_e4m3fn float8_e8m0fnu complex64 uint8"


def test_count_in_a_narrow_type() -> None:
    def count(x: Array) -> list[Array]:
        counted = [lax.iota(jnp.dtype(dtype), 2048) for dtype in NARROW.split()]
        return [jnp.where(x == 0, n, lax.rev(n, (0,))) for n in counted]

    p = agree(count, {"X": 2, "Y": 4}, [ROWS], np.zeros(2048, np.float32))
    assert p.out_specs == [jax.P("X")] * len(NARROW.split())


FEW_BITS = "float8_e8m0fnu", "float4_e2m1fn", "int2", "uint4"


def test_every_collective_carries_types_of_few_bits() -> None:
    def moved(x: list[Array], place: Array) -> list[Any]:
        return [
            (
                a[5],
                a[place],
                lax.reduce(a, a[0, 0], lax.max, (0,)),
                lax.rev(a, (0,)),  # all_gather
                a.at[place].set(a[0]),
            )
            for a in x
        ]

    numbers = np.abs(whole_numbers(8, 8)) % 2 + 1
    x = [numbers.astype(jnp.dtype(dtype)) for dtype in FEW_BITS]
    rows = ManualPartition({"x/*": 0}, axis="X")
    agree(moved, {"X": 4}, [rows], x, np.array([3, 7, 0], np.int32))


FLOATS = "float64 float32 bfloat16 float16 float8_e4m3fn float8_e5m2fnuz float8_e8m0fnu"


def test_extremes_keep_nan_and_infinity(x64: None) -> None:
    def extremes(x: list[Array]) -> list[Array]:
        ways = itertools.product(x, (lax.max, lax.min))
        return [lax.reduce(a, jnp.ones((), a.dtype), op, (0,)) for a, op in ways]

    rows = np.array([[1, 2, np.nan], [2, 4, 1], [4, np.inf, -8], [8, 1, 0]])
    numbers = np.concatenate([rows, rows[::-1]])
    x = [numbers.astype(jnp.dtype(dtype)) for dtype in FLOATS.split()]
    tiled = ManualPartition({"x/*": 0}, axis="X")
    p = agree(extremes, {"X": 4}, [tiled], x)
    assert p.collectives["all_reduce"] == 2 * len(x)


# Layouts


def test_fft_in_front_of_a_gather(x64: None) -> None:
    """The gather's favourite layout is none that an fft on a CPU knows."""

    def mixed(x: Array, g: Array, w: Array) -> Array:
        for _ in range(2):
            x = jnp.real(jnp.fft.fft2(x + 0j)) * g
        return (x @ w).sum()

    rng = np.random.default_rng(0)
    args = [jnp.asarray(rng.normal(size=n)) for n in ((2, 16, 64), (64,), (64, 128))]
    tiled = ManualPartition({"g": 0}, axis="X")
    p = partir.partition(mixed, {"X": 8}, [tiled], args=args, compiler_options=QUICK)
    assert p.collectives["all_gather"] == 1
    assert "LayoutConstraint" not in p.stablehlo()  # other devices don't need it
    assert_same(p.compile()(*args), jax.jit(mixed)(*args))


@pytest.mark.parametrize("start", [5, -3, 1])
def test_slice_of_a_range_that_starts_out_of_range(start: int) -> None:
    """XLA joins both slices: what the first one brings into range must stay so."""

    def rows_added(x: Array, y: Array, start: Array) -> Array:
        return lax.dynamic_slice(x, (jnp.int8(0), start), (4, 4)) + y

    x, y, at = whole_numbers(4, 6), whole_numbers(4, 4, seed=1), np.int8(start)
    columns = ManualPartition({"y": 1}, axis="X")
    p = partir.partition(rows_added, {"X": 2}, [columns], args=(x, y, at))
    first = min(max(start + 6 if start < 0 else start, 0), 2)
    np.testing.assert_array_equal(p.compile()(x, y, at), x[:, first : first + 4] + y)


@pytest.mark.parametrize("start", [5, -3, 1])
def test_slice_of_one_window_that_starts_out_of_range(start: int) -> None:
    """XLA makes a slice of a gather of one window, and joins it to others as well."""
    numbers = lax.GatherDimensionNumbers((1, 2), (), (0, 1))

    def window_added(x: Array, y: Array, at: Array) -> Array:
        mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
        return lax.gather(x, at, numbers, (4, 4), mode=mode)[0] + y

    x, y = whole_numbers(4, 6), whole_numbers(4, 4, seed=1)
    at = np.array([[0, start]], np.int8)
    columns = ManualPartition({"y": 1}, axis="X")
    p = partir.partition(window_added, {"X": 2}, [columns], args=(x, y, at))
    first = min(max(start, 0), 2)
    np.testing.assert_array_equal(p.compile()(x, y, at), x[:, first : first + 4] + y)
