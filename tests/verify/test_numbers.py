"""Numbers that depend on no argument, at the ends of their types."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

import partir
from partir.verify.concrete import RUN, within

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("start", [-1, 0])
def test_the_least_number_of_a_type_is_no_row(x64: None, start: int) -> None:
    """Devices that do not count the start of a maximum begin with the least number."""

    def largest(x: jax.Array) -> jax.Array:
        return lax.reduce(x, np.int64(start), lax.max, (0, 1))

    x = jax.ShapeDtypeStruct((8, 1), "int64")
    schedule = [partir.ManualPartition({"x": 0}, axis=axis) for axis in "AB"]
    p = partir.partition(largest, {"A": 4, "B": 2}, schedule, args=(x,))
    assert not p.proof().disproved  # and nothing is raised


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8])
def test_integers_are_divided_towards_zero(dtype: type) -> None:
    ends = np.iinfo(dtype)
    x = np.array([ends.min, ends.min + 1, ends.max, 7], dtype)
    y = np.array([2, 3, 5, 4], dtype)
    wanted = [
        abs(int(a)) // int(b) * (-1 if a < 0 else 1) for a, b in zip(x, y, strict=True)
    ]
    assert RUN["divide"]((), x, y).tolist() == wanted
    left = [int(a) - q * int(b) for a, b, q in zip(x, y, wanted, strict=True)]
    assert RUN["remainder"]((), x, y).tolist() == left


def test_the_least_number_is_far_from_zero() -> None:
    least = np.iinfo(np.int64).min
    assert not within(np.array([0, least]), 1 << 39)
    assert within(np.array([5, -5], np.int8), 5)
    assert not within(np.array([5, -6], np.int8), 5)
