"""Types of few bits travel in wider ones, which have all of their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import partir
from partir.execute.types import jax_struct
from partir.ir.types import tensor
from partir.verify.classes.monoids import is_identity
from partir.verify.classes.types import SMALL, widens
from tests.verify.modules import (
    Case,
    all_reduce,
    constant,
    device,
    function,
    is_proved,
    unary,
)
from tests.verify.test_right_and_wrong import mistakes_missed

pytestmark = pytest.mark.quick


def totals(x: jax.Array) -> tuple[jax.Array, ...]:
    zero, one = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
    added = lax.reduce(x, zero, lax.add, (0,))
    return added, lax.reduce(x, one, lax.mul, (0,)), lax.rev(x, (0,))


def extremes(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    ends = jnp.finfo(x.dtype)
    first, last = (jnp.asarray(n, x.dtype) for n in (ends.min, ends.max))
    return lax.reduce(x, first, lax.max, (0,)), lax.reduce(x, last, lax.min, (0,))


RIGHT: dict[str, tuple[Callable[..., Any], str]] = {
    "integers": (totals, "int2"),
    "unsigned ones": (totals, "uint4"),
    "floats": (extremes, "float8_e4m3fn"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_travels_in_wider_types_is_proved_and_no_mistake(name: str) -> None:
    fn, dtype = RIGHT[name]
    x = jax.ShapeDtypeStruct((8, 2), jnp.dtype(dtype))
    tactic = partir.ManualPartition({"x": 0}, "B")
    p = partir.partition(fn, {"B": 4}, [tactic], args=(x,))
    assert not p.verify().not_proved
    assert mistakes_missed(p) == []


def through(narrow: str, wide: str, op: str) -> Case:
    """A reduction over two devices in another type, and back."""
    local = function(
        {"x": f"1x{narrow}"},
        narrow,
        unary("w", "convert", "x", f"1x{narrow}", f"1x{wide}"),
        all_reduce("s", "w", op, f"1x{wide}"),
        unary("b", "convert", "s", f"1x{wide}", f"1x{narrow}"),
        unary("r", "reshape", "b", f"1x{narrow}", narrow),
    )
    start = {"add": 0, "multiply": 1, "maximum": -8, "minimum": 7}[op]
    source = function(
        {"x": f"2x{narrow}"},
        narrow,
        constant("z", start if narrow[0] == "i" else max(start, 0), narrow),
        f"%r = stablehlo.reduce(%x init: %z) applies stablehlo.{op} across dimensions "
        f"= [0] : (tensor<2x{narrow}>, tensor<{narrow}>) -> tensor<{narrow}>",
    )
    return Case(source, local, [(("B",),)])


@pytest.mark.parametrize(
    ("narrow", "wide", "op"),
    [
        ("i4", "i8", "add"),
        ("i4", "i32", "multiply"),
        ("i4", "i8", "maximum"),
        ("i4", "i16", "minimum"),
        ("ui4", "i8", "add"),
    ],
)
def test_reductions_in_wider_types(narrow: str, wide: str, op: str) -> None:
    assert is_proved(through(narrow, wide, op))


@pytest.mark.parametrize(
    ("narrow", "wide", "op"),
    [
        ("i4", "ui8", "maximum"),  # negative numbers are the largest there
        ("i4", "i2", "add"),
        ("i4", "f16", "add"),  # does not wrap round
        ("i4", "i1", "add"),
    ],
)
def test_reductions_in_types_that_have_other_numbers(
    narrow: str, wide: str, op: str
) -> None:
    assert not is_proved(through(narrow, wide, op))


@pytest.mark.parametrize(
    ("before", "between", "proved"),
    [
        ("i4", "i8", True),
        ("ui4", "i8", True),
        ("i1", "i8", True),
        ("f8E5M2", "f16", True),
        ("f8E4M3FN", "bf16", True),
        ("i8", "i4", False),
        ("i4", "ui8", True),  # negative numbers wrap round, there and back
        ("f16", "f8E5M2", False),
        ("f8E8M0FNU", "f16", False),
        ("bf16", "f16", False),
        ("f32", "f64", False),  # denormal numbers may be zero there
    ],
)
def test_there_and_back(before: str, between: str, proved: bool) -> None:
    local = function(
        {"x": f"4x{before}"},
        f"4x{before}",
        unary("w", "convert", "x", f"4x{before}", f"4x{between}"),
        unary("r", "convert", "w", f"4x{between}", f"4x{before}"),
    )
    source = function(
        {"x": f"8x{before}"},
        f"8x{before}",
        unary("r", "reshape", "x", f"8x{before}", f"8x{before}"),
    )
    assert is_proved(Case(source, local, [(("B",),)], (("B",),))) == proved


@pytest.mark.parametrize("narrow", sorted(SMALL))
@pytest.mark.parametrize("wide", ["float16", "bfloat16", "float32", "float64"])
def test_all_numbers_of_a_type_are_there_in_order(narrow: str, wide: str) -> None:
    """Each of the bit patterns, nan among them; and what changes no extreme."""
    short = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}.get(wide, "f64")
    assert widens(narrow, short)
    dtype = jax_struct(tensor((), narrow)).dtype
    bits = np.arange(256 if "8" in narrow[:2] else 1 << int(narrow[1]), dtype=np.uint8)
    numbers = bits.view(dtype)
    there = numbers.astype(jnp.dtype(wide))
    assert (there.astype(dtype).view(np.uint8) == bits)[~np.isnan(numbers)].all()
    assert (np.isnan(there) == np.isnan(numbers)).all()
    exact = numbers.astype(np.float64)
    assert (there.astype(np.float64) == exact)[~np.isnan(numbers)].all()
    least, largest = (f(exact[~np.isnan(exact)]) for f in (np.min, np.max))
    if not np.isinf(largest):
        assert is_identity("max", f"{least:e}", narrow)
        assert is_identity("min", f"{largest:e}", narrow)
        assert not is_identity("max", f"{largest:e}", narrow)


WINDOW = """%w = "stablehlo.reduce_window"(%x, %z) <{{
    window_dimensions = array<i64: 2>,
    padding = dense<[[1, 2]]> : tensor<1x2xi64>}}> ({{
  ^bb0(%p: tensor<{0}>, %q: tensor<{0}>):
    %m = stablehlo.maximum %p, %q : tensor<{0}>
    stablehlo.return %m : tensor<{0}>
  }}) : (tensor<2x{0}>, tensor<{0}>) -> tensor<4x{0}>"""
UPDATE = (
    "%v = stablehlo.dynamic_update_slice %m, %b, %o : "
    "(tensor<4x{0}>, tensor<2x{0}>, tensor<i32>) -> tensor<4x{0}>"
)


@pytest.mark.parametrize(
    ("narrow", "wide", "least", "less"),
    [("i4", "i8", "-8", "-128"), ("f8E4M3FN", "f32", "-448.0", "0xFF800000")],
)
def test_the_largest_of_nothing_is_another_one_in_a_wider_type(
    narrow: str, wide: str, least: str, less: str
) -> None:
    """The last window holds padding only."""
    source = function(
        {"x": f"2x{narrow}"},
        f"4x{wide}",
        constant("z", least, narrow),
        WINDOW.format(narrow),
        unary("r", "convert", "w", f"4x{narrow}", f"4x{wide}"),
    )
    spread = "broadcast_in_dim|, dims = [0]"
    local = function(
        {"x": f"1x{narrow}"},
        f"4x{wide}",
        unary("c", "convert", "x", f"1x{narrow}", f"1x{wide}"),
        unary("b", spread, "c", f"1x{wide}", f"2x{wide}"),
        constant("m", less, f"4x{wide}"),
        device("o", 1),
        UPDATE.format(wide),
        all_reduce("r", "v", "maximum", f"4x{wide}"),
    )
    assert not is_proved(Case(source, local, [(("B",),)]))
