"""Partitions of functions, by their elements alone; and what is one change away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax, vmap
from ml_dtypes import float8_e4m3fn

import partir
from partir.frontend.device_local import read_device_local
from partir.verify.elements.written_out import ProgramTilings, written_out

pytestmark = pytest.mark.usefixtures("x64")

Change = tuple[str, str]


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def is_equal(
    function: Callable[..., Any], args: dict[str, np.ndarray], change: Change | None
) -> bool:
    """Whether all results are equal, tiled over three devices and then changed."""
    tactic = partir.ManualPartition({"x": 0}, axis="B")
    record = partir.partition(function, {"B": 3}, [tactic], args=tuple(args.values()))
    text = record.stablehlo()
    if change is not None:
        assert text.count(change[0]), f"{change[0]} is not in\n{text}"
        text = text.replace(*change)
    spmd = record.spmd
    cut = ProgramTilings(spmd.in_tilings, spmd.out_tilings)
    every = range(len(record.program.results))
    local = read_device_local(text)
    found = written_out(record.program, local, record.mesh, cut, [*every])
    return found == {*every}


def least(x: Array) -> Any:
    """Of five rows, where devices have two, two and one."""
    return jnp.argmin(x[:5], 0)


def among_equals(x: Array, p: np.ndarray) -> Any:
    """Of a number that is there again and again, the first one."""
    return jnp.argmax(lax.pad(x, p, ((1, -1, 0), (1, 1, 1))), 0)


def product(x: Array) -> Any:
    return lax.reduce(x[:5], np.complex64(-1), lax.mul, (0,))


def chosen_product(x: Array, which: np.ndarray) -> Any:
    return jnp.prod(jnp.where(which[:5], x[:5], 2 * x[:5]), 0)


def sum_and_largest(x: Array) -> Any:
    def body(a: Any, b: Any) -> Any:
        return lax.add(a[0], b[0]), lax.max(a[1], b[1])

    start = (np.float32(3), np.float32(-1))
    return lax.reduce((x[:5], x[:5]), start, body, (0,))


def affine(x: Array) -> Any:
    """A reducer whose order matters, from a start that counts."""

    def body(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    start = (np.float32(2), np.float32(3))
    return lax.reduce((x[:5], x[:5]), start, body, (0,))


def scattered(x: Array, where: np.ndarray) -> Any:
    """The largest of what goes to each place, of a type that is sent as a wider one."""
    return jnp.full(4, -3, x.dtype).at[where].max(x)


def looked_up(x: Array, where: np.ndarray) -> Any:
    return vmap(lambda row, at: lax.dynamic_slice(row, (at,), (2,)))(x[:5], where[:5])


def looked_up_twice(x: Array, where: np.ndarray, again: np.ndarray) -> Any:
    return x[where][again]


def any_of_pairs(x: Array) -> Any:
    return jnp.any(x[:, None] & x[None], (0, 1))


PLACES = np.array([3, 1, 2, 0, 1, 3])
X: dict[str, np.ndarray] = {"x": normal(6)}
REPEATED = {"x": np.zeros((6, 3), np.uint8), "p": np.uint8(0)}
LAST = ("comparison_direction LT", "comparison_direction GT")
FIVE = "dense<5> : tensor<i32>"  # rows that there are
CASES: dict[str, tuple[Callable[..., Any], dict[str, np.ndarray], Change]] = {
    "the least of short tiles": (least, X, ("dense<0x7F800000>", "dense<9.0>")),
    "the largest among equal ones": (among_equals, REPEATED, LAST),
    "a row too many": (least, X, (FIVE, FIVE.replace("5", "6"))),
    "a product of complex numbers": (
        product,
        {"x": normal(6, dtype=np.complex64)},
        ("dense<(-1.000000e+00", "dense<(1.0"),
    ),
    "a product of what is chosen": (
        chosen_product,
        {**X, "which": PLACES > 1},
        ("stablehlo.multiply", "stablehlo.add"),
    ),
    "a sum beside a maximum": (
        sum_and_largest,
        X,
        ("dense<3.000000e+00>", "dense<4.0>"),
    ),
    "a reducer with an order": (affine, X, (FIVE, FIVE.replace("5", "4"))),
    "a flag that none has": (affine, X, ("dense<false>", "dense<true>")),
    "a maximum of a narrow type": (
        scattered,
        {"x": normal(6, dtype=float8_e4m3fn), "where": PLACES},
        ("dense<-448.0>", "dense<-2.0>"),
    ),
    "a look-up in a look-up": (
        looked_up_twice,
        {**X, "where": PLACES[:3], "again": PLACES[:2]},
        ("dense<-0.000000e+00>", "dense<1.0>"),
    ),
    "whether one of many pairs holds": (
        any_of_pairs,
        {"x": normal(6, 3) > 0},
        ("stablehlo.or", "stablehlo.and"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_partitions_are_equal_and_others_are_not(
    case: tuple[Callable[..., Any], dict[str, np.ndarray], Change],
) -> None:
    function, args, change = case
    assert is_equal(function, args, None)
    assert not is_equal(function, args, change)


def test_rows_of_a_batch_are_in_order_whatever_they_look_up() -> None:
    args = {"x": normal(6, 4), "where": PLACES}
    assert is_equal(looked_up, args, None)
    promise = "indices_are_sorted = {}"
    assert is_equal(looked_up, args, (promise.format("true"), promise.format("false")))
    assert not is_equal(looked_up, args, ("tensor<1x3xi64>", "tensor<3x1xi64>"))
