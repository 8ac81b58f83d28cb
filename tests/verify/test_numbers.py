"""Numbers that depend on no argument, at the ends of their types."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

import partir
from partir.verify.layouts.concrete import RUN, within
from tests.verify.modules import Case, constant, function, is_proved, unary

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


def counted_as(types: tuple[str, ...]) -> Case:
    """A number beside counts, converted to one type after another."""
    head = (
        constant("z", 2**24 + 1, "i32"),
        "%i = stablehlo.iota dim = 0 : tensor<3xi32>",
        "%a0 = stablehlo.pad %i, %z, low = [0], high = [1], interior = [0]"
        " : (tensor<3xi32>, tensor<i32>) -> tensor<4xi32>",
    )
    cut = unary("b", "slice| [3:4]", "a0", "4xi32", "1xi32")
    source = function(
        {"x": "f64"}, "1xf64", *head, cut, unary("r", "convert", "b", "1xi32", "1xf64")
    )
    before, converted = "i32", []
    for number, type_ in enumerate(types):
        name, shapes = f"a{number + 1}", (f"4x{before}", f"4x{type_}")
        converted.append(unary(name, "convert", f"a{number}", *shapes))
        before = type_
    last = f"a{len(types)}"
    cut = unary("b", "slice| [3:4]", last, f"4x{before}", f"1x{before}")
    final = unary("r", "convert", "b", f"1x{before}", "1xf64")
    local = function({"x": "f64"}, "1xf64", *head, *converted, cut, final)
    return Case(source, local, [()])


def test_a_number_beside_counts_is_rounded_with_them(x64: None) -> None:
    """Floats of 32 bits do not have it."""
    assert is_proved(counted_as(("i64",)))
    assert not is_proved(counted_as(("f32",)))
