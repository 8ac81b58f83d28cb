"""What a reduction starts from counts once; the identity counts nothing."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import partir
from partir.mesh import Mesh
from partir.verify import prove

pytestmark = pytest.mark.quick

MESH = {"B": 4}
LEAST = {"max": np.iinfo(np.int32).min, "min": np.iinfo(np.int32).max}
WAYS: dict[str, Any] = {
    "sum": lax.add,
    "product": lax.mul,
    "max": lax.max,
    "min": lax.min,
}


def reduced(way: str, size: int, dtype: str = "int32") -> partir.Partitioned:
    def fn(x: jax.Array) -> jax.Array:
        return lax.reduce(x, np.array(3, dtype), WAYS[way], (0,))

    x = jax.ShapeDtypeStruct((size, 2), dtype)
    return partir.partition(
        fn, MESH, [partir.ManualPartition({"x": 0}, "B")], args=(x,)
    )


@pytest.mark.parametrize("size", [4, 8])  # of one row, the reduction is one op
@pytest.mark.parametrize("way", WAYS)
def test_a_start_counts_once(way: str, size: int) -> None:
    p = reduced(way, size)
    assert p.collectives["all_reduce"] == 1
    assert p.proof().proved == ("out",)


@pytest.mark.parametrize("way", WAYS)
def test_a_start_that_is_another_is_found(way: str) -> None:
    p = reduced(way, 8)
    wrong = p.stablehlo().replace("dense<3> : tensor<i32>", "dense<5> : tensor<i32>")
    assert wrong != p.stablehlo()
    assert p.proof(wrong).not_proved


@pytest.mark.parametrize("way", ["sum", "product"])
def test_a_start_that_counts_thrice_is_found(way: str) -> None:
    p = reduced(way, 8)
    wrong = p.stablehlo().replace("direction EQ>", "direction NE>")
    assert p.proof(wrong).not_proved


@pytest.mark.parametrize("way", ["max", "min"])
def test_a_number_that_counts_is_no_identity(way: str) -> None:
    p = reduced(way, 8)
    number = f"dense<{LEAST[way]}> : tensor<i32>"
    counts = 4 if way == "max" else 2
    wrong = p.stablehlo().replace(number, f"dense<{counts}> : tensor<i32>")
    assert wrong != p.stablehlo()
    assert p.proof(wrong).not_proved


def with_number(op: str, number: str, dtype: str) -> str:
    t = f"tensor<2x{dtype}>"
    return f"""func.func public @main(%x: {t}) -> {t} {{
      %c = stablehlo.constant dense<{number}> : {t}
      %y = stablehlo.{op} %c, %x : {t}
      %r = stablehlo.subtract %y, %x : {t}
      return %r : {t} }}"""


@pytest.mark.parametrize(
    ("op", "number", "dtype", "right"),
    [
        ("add", "0.0", "f32", True),
        ("add", "1.0", "f32", False),
        ("add", "(0.0, 0.0)", "complex<f32>", True),
        ("add", "(0.0, 1.0)", "complex<f32>", False),
        ("multiply", "(1.0, 0.0)", "complex<f32>", True),
        ("multiply", "(1.0, 1.0)", "complex<f32>", False),
        ("multiply", "1", "i32", True),
        ("multiply", "0", "i32", False),
        ("maximum", "0xFF800000", "f32", True),
        ("maximum", "0.0", "f32", False),
        ("minimum", "-2147483648", "i32", False),
        ("or", "0", "ui8", True),
        ("or", "1", "ui8", False),
    ],
)
def test_only_an_identity_may_be_left_out(
    op: str, number: str, dtype: str, right: bool
) -> None:
    t = f"tensor<2x{dtype}>"
    alone = f"""func.func public @main(%x: {t}) -> {t} {{
      %r = stablehlo.subtract %x, %x : {t}
      return %r : {t} }}"""
    source = partir.load(with_number(op, number, dtype))
    proof = prove(source, alone, Mesh({"B": 1}), [[[]]], [[[]]])
    assert bool(proof.proved) == right
