"""Samples of reduce, sort and top_k."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jax import lax

from partir.ir.types import TensorType
from tests.rules.samples.sample import (
    Sample,
    combine,
    numpy_dtype,
    sample,
    traced,
    written,
)

_ARITHMETIC = ("add", "multiply", "maximum", "minimum")
_CASES = (
    *((op, dtype) for op in _ARITHMETIC for dtype in ("f64", "bf16", "i32", "ui8")),
    *((op, dtype) for op in ("and", "or") for dtype in ("i32", "ui8")),
    *((op, "i1") for op in (*_ARITHMETIC, "and", "or")),
)


@sample("reduce")
def reduce(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """All monoids; reducers that are none; several operands. Initial values count."""
    for number, (op, dtype) in enumerate(_CASES):
        dims, left = (("0, 2", "4"), ("1", "6x2"))[number % 2]
        types = f"6x4x2x{dtype}, {dtype} -> {left}x{dtype}"
        region = combine(op, dtype, swapped=number % 3 == 0)
        signature = written(kind, types, f"dimensions = array<i64: {dims}>", region)
        given = tuple(_small(rng, operand) for operand in signature.operands)
        yield Sample(f"{op} {dtype}", signature, given=given)
    yield from _several_or_no_monoid(kind)
    yield from _known_identities(kind, rng)


def _small(rng: np.random.Generator, type_: TensorType) -> np.ndarray:
    """Small whole numbers but zero and one, which add and multiply exactly."""
    dtype = numpy_dtype(type_.dtype)
    if dtype.kind == "b":
        return np.asarray(rng.random(type_.shape) < 0.5)
    low = 2 if dtype.kind == "u" else -3
    value = rng.integers(low, 4, type_.shape)
    return np.where(value * (value - 1), value, 2).astype(dtype)


def _several_or_no_monoid(kind: str) -> Iterator[Sample]:
    """Only kept dimensions may be tiled."""
    x = np.zeros((4, 6))
    (signature,) = traced(kind, lambda x: jnp.argmax(x, axis=1), x)
    yield Sample("argmax", signature)
    types = "4x6xf64, f64 -> 4xf64"
    attrs = "dimensions = array<i64: 1>"
    yield Sample("last", written(kind, types, attrs, combine("subtract", "f64")))
    types = "6x2xi32, 6x2xf64, i32, f64 -> 2xi32, 2xf64"
    yield Sample("two sums", written(kind, types, "dimensions = array<i64: 0>", _TWO))


_TWO = """{
  ^bb0(%a: tensor<i32>, %b: tensor<f64>, %c: tensor<i32>, %d: tensor<f64>):
  %e = stablehlo.add %a, %c : tensor<i32>
  %f = stablehlo.add %d, %b : tensor<f64>
  "stablehlo.return"(%e, %f) : (tensor<i32>, tensor<f64>) -> () }"""


def _known_identities(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """An initial value known to be the identity is not masked; another one is."""
    x = rng.integers(2, 5, (4, 6)).astype(np.int32)
    attrs = "dimensions = array<i64: 1>"
    for init in (0, 1):
        signature = written(kind, "4x6xi32, i32 -> 4xi32", attrs, combine("add", "i32"))
        yield Sample(
            f"add to the known {init}",
            signature,
            splats=(None, str(init)),
            given=(x, np.int32(init)),
        )


@sample("sort")
def sort(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """One operand; several, by the first; the last dimension and another one."""
    x, ids = np.zeros((4, 6)), np.zeros((4, 6), np.int32)
    for dim in (0, 1):
        (one,) = traced(kind, lambda x, dim=dim: lax.sort(x, dimension=dim), x)
        yield Sample(f"one operand along {dim}", one)

    def by_key(x: object, ids: object) -> object:
        return lax.sort((x, ids), dimension=0, num_keys=1)

    (several,) = traced(kind, by_key, x, ids)
    yield Sample("several operands", several)


@sample("chlo.top_k")
def top_k(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Integers with equals among them, and floats."""
    for dtype in ("i32", "f64"):
        types = f"4x2x6x{dtype} -> 4x2x3x{dtype}, 4x2x3xi32"
        yield Sample(types, written(kind, types, "k = 3 : i64"))
