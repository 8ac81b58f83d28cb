"""Bounds of values: no element is ever larger, whatever the arguments are."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from partir.ir.types import tensor
from partir.rules.bounds import NONE, Bounds, divides, literal_bound
from tests.programs import program_of

pytestmark = pytest.mark.usefixtures("x64")

EDGES = np.array([0.0, -0.0, 1.5, -2e9, 1e308, 5e-324, np.inf, -np.inf, np.nan])
COUNTS = np.array([0, 1, -1, 127, -128, 100, -100, 3, 4], np.int8)

# Made of `x`, which is anything, and of `n`, eight bits each.
KNOWN: dict[str, Callable[[Array, Array], Array]] = {
    "number": lambda x, n: jnp.full(9, 0.25),
    "position": lambda x, n: lax.iota(jnp.float32, 9),
    "count": lambda x, n: n.astype(jnp.float64),
    "mask": lambda x, n: (x > 1).astype(jnp.float32),
    "nan or not": lambda x, n: jnp.isnan(x).astype(jnp.float64) - 0.5,
    "wave": lambda x, n: jnp.sin(n.astype(jnp.float32) * 2.0),
    "of counts": lambda x, n: jnp.exp(jnp.tanh(n / 3.0)) * 100.0,
    "moved": lambda x, n: jnp.pad(jnp.flip(n.astype(jnp.float64))[:7], (1, 1)),
    "chosen": lambda x, n: jnp.where(x > 0, n.astype(jnp.float64), 3.0),
    "clamped": lambda x, n: jnp.clip(n.astype(jnp.float64), -5.0, 5.0),
    "narrow": lambda x, n: (n > 0).astype(jnp.float8_e4m3fn) * jnp.float8_e4m3fn(4),
    "integers": lambda x, n: n - n,
}
UNKNOWN: dict[str, Callable[[Array, Array], Array]] = {
    "argument": lambda x, n: x + 0.0,
    "wave of anything": lambda x, n: jnp.sin(x),
    "curve of anything": lambda x, n: jnp.tanh(x),
    "clamped nan": lambda x, n: jnp.clip(x, -5.0, 5.0),
    "infinity": lambda x, n: jnp.full(9, np.inf),
    "nan": lambda x, n: jnp.where(n > 0, np.nan, 1.0),
    "nothing divided": lambda x, n: 0.0 / n.astype(jnp.float64),
    "too large": lambda x, n: jnp.exp(n.astype(jnp.float64) * 10.0),
    "too large a product": lambda x, n: jnp.full(9, 1e200) * (n * 1e200),
    "too narrow": lambda x, n: n.astype(jnp.float8_e4m3fn) * jnp.float8_e4m3fn(4),
    "too many": lambda x, n: n.astype(jnp.int32).astype(jnp.float16),
}


def bound(function: Callable[[Array, Array], Array]) -> float:
    program = program_of(function, EDGES, COUNTS)
    return Bounds.of(program)(program.results[0].value)


@pytest.mark.parametrize("name", KNOWN)
def test_no_element_exceeds_its_bound(name: str) -> None:
    made = np.asarray(jax.jit(KNOWN[name])(EDGES, COUNTS)).astype(np.float64)
    most = bound(KNOWN[name])
    assert most < math.inf
    assert np.all(np.abs(made) <= most)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_may_be_infinite_or_nan_has_none(name: str) -> None:
    assert bound(UNKNOWN[name]) == NONE


def test_a_long_chain_is_no_deeper_than_a_short_one() -> None:
    def chain(x: Array, n: Array) -> Array:
        made = n.astype(jnp.float64)
        for _ in range(2000):
            made = jnp.negative(made)
        return made

    assert bound(chain) == 256.0


@pytest.mark.parametrize(
    ("dtype", "literal", "expected"),
    [
        ("f64", "-3.500000e+00", 3.5),
        ("f64", "0x7FF0000000000000", NONE),
        ("f16", "6.550400e+04", NONE),  # rounding may go beyond
        ("complex<f32>", "(1.000000e+00,-2.000000e+00)", 2.0),
        ("complex<f32>", "(0x7F800000,0.000000e+00)", NONE),
        ("i1", "true", 1.0),
        ("ui8", "200", 200.0),
    ],
)
def test_numbers(dtype: str, literal: str, expected: float) -> None:
    assert literal_bound(tensor((), dtype), literal) == expected


@pytest.mark.parametrize(
    ("dtype", "literal", "expected"),
    [
        ("f64", "3.000000e+00", True),
        ("f64", "-1.000000e-300", True),
        ("f64", "1.000000e-310", False),  # a denormal, which may count as zero
        ("f64", "1.000000e+308", False),  # its inverse is one
        ("f32", "0.000000e+00", False),
        ("f32", "-0.000000e+00", False),
        ("f32", "0x7F800000", False),
        ("f32", None, False),
        ("complex<f32>", "(1.000000e+00,0.000000e+00)", False),
        ("i32", "3", False),
    ],
)
def test_divisors(dtype: str, literal: str | None, expected: bool) -> None:
    assert divides(tensor((), dtype), literal) is expected
