"""Identities of monoids: joined to anything, they leave it as it is."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from partir.ir.core import Lambda
from partir.ir.types import tensor
from partir.rules.local import Ssa, binary, constant
from partir.rules.monoids import (
    OPS,
    additive,
    identity,
    is_identity,
    monoid_of,
    nothing,
    reducer,
)
from tests.rules.samples.sample import combine, numpy_dtype, written
from tests.rules.tiles import Local, run

INTEGERS = "i8 i16 i32 i64 ui8 ui16 ui32 ui64".split()
FLOATS = "f64 f32 f16 bf16 f8E4M3FN f8E5M2 f8E4M3B11FNUZ f8E4M3FNUZ f8E5M2FNUZ".split()
CASES = (
    *((m, d) for m in ("sum", "mul", "max", "min") for d in (*INTEGERS, *FLOATS)),
    *((m, d) for m in ("and", "or") for d in (*INTEGERS, "i1")),
    *((m, "i1") for m in ("max", "min")),
    *((m, d) for m in ("sum", "mul") for d in ("complex<f64>", "complex<f32>")),
    *((m, d) for m in ("sum", "mul", "max", "min") for d in ("i4", "ui4", "f4E2M1FN")),
    *((m, "f8E8M0FNU") for m in ("mul", "max", "min")),
)


def _extremes(dtype: str) -> np.ndarray:
    """The smallest and the largest values of a type, and some between."""
    made = numpy_dtype(dtype)
    if made.kind == "b":
        return np.array([False, True])
    if dtype.lstrip("u").startswith("i"):
        limits = ml_dtypes.iinfo(made)
        return np.array([limits.min, limits.max, 0, 1, 5], made)
    if made.kind == "c":
        return np.array([1 + 2j, -3j, 0], made)
    limits = ml_dtypes.finfo(made)
    if dtype == "f8E8M0FNU":
        return np.array([limits.smallest_normal, limits.max, 1, 2, 4], made)
    return np.array([limits.min, limits.max, 0, 1, -1.5], made)


def test_identities_leave_everything_as_it_is(x64: None) -> None:
    emitter = Local()
    values = [_extremes(dtype) for _, dtype in CASES]
    arguments, results = [], []
    for (monoid, dtype), value in zip(CASES, values, strict=True):
        type_ = tensor(value.shape, dtype)
        arguments.append(Ssa(f"%arg{len(arguments)}", type_))
        neutral = constant(emitter, type_, identity(monoid, type_))
        kind = OPS[monoid].removeprefix("stablehlo.")
        results.append(binary(emitter, kind, neutral, arguments[-1]))
    text = emitter.module("identities", arguments, results)
    made = run(text, [r.type for r in results], values)
    wrong = [
        (case, value, got)
        for case, value, got in zip(CASES, values, made, strict=True)
        if not np.array_equal(value, got)
    ]
    assert not wrong


def test_nothing_leaves_every_bit(x64: None) -> None:
    """The sign of a zero among them, where a type has two."""
    zeros = {d: np.array([0.0, -0.0], numpy_dtype(d)) for d in FLOATS}
    powers = np.array([0, 254], np.uint8).view(numpy_dtype("f8E8M0FNU"))
    values = {**zeros, "f8E8M0FNU": powers}
    emitter, results = Local(), []
    for dtype in values:
        type_ = tensor((2,), dtype)
        kind = OPS[additive(dtype)].removeprefix("stablehlo.")
        none = constant(emitter, type_, nothing(type_))
        results.append(binary(emitter, kind, none, emitter.argument(type_)))
    text = emitter.module("nothing", emitter.arguments, results)
    made = run(text, [r.type for r in results], list(values.values()))
    for value, got in zip(values.values(), made, strict=True):
        np.testing.assert_array_equal(got.view(np.uint8), value.view(np.uint8))


@pytest.mark.parametrize(
    ("monoid", "dtype", "literal", "expected"),
    [
        ("sum", "f32", "0.000000e+00", True),
        ("sum", "f32", "-0.000000e+00", True),
        ("sum", "f32", "1.000000e+00", False),
        ("sum", "i32", "0", True),
        ("mul", "i32", "1", True),
        ("mul", "i32", "0", False),
        ("max", "f32", "0xFF800000", True),
        ("max", "f32", "0x7F800000", False),
        ("min", "f32", "0x7F800000", True),
        ("max", "bf16", "0xFF80", True),
        ("max", "i32", "-2147483648", True),
        ("min", "ui8", "255", True),
        ("max", "i64", str(-(2**63)), True),
        ("max", "i64", str(1 - 2**63), False),
        ("min", "ui64", str(2**64 - 2), False),
        ("and", "i1", "true", True),
        ("or", "i1", "true", False),
        ("sum", "f32", "0x7FC00000", False),
        ("sum", "complex<f32>", "(0.000000e+00,0.000000e+00)", True),
        ("sum", "f32", None, False),
    ],
)
def test_known_identities(
    monoid: str, dtype: str, literal: str | None, expected: bool
) -> None:
    assert is_identity(monoid, tensor((), dtype), literal) is expected


def _region(op: str, dtype: str, swapped: bool = False) -> Lambda:
    attrs = "dimensions = array<i64: 0>"
    types = f"4x{dtype}, {dtype} -> {dtype}"
    signature = written("stablehlo.reduce", types, attrs, combine(op, dtype, swapped))
    return signature.lambdas[0]


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("add", "f32", "sum"),
        ("multiply", "f32", "mul"),
        ("maximum", "i32", "max"),
        ("minimum", "f32", "min"),
        ("and", "i1", "and"),
        ("or", "i1", "or"),
        ("and", "i32", None),
        ("or", "ui8", None),
        ("add", "i1", "or"),
        ("multiply", "i1", "and"),
        ("subtract", "f32", None),
        ("xor", "i32", None),
        ("add", "f8E8M0FNU", None),
        ("maximum", "f8E8M0FNU", "max"),
    ],
)
def test_monoid_of_a_reducer(op: str, dtype: str, expected: str | None) -> None:
    assert monoid_of(_region(op, dtype)) == expected
    assert monoid_of(_region(op, dtype, swapped=True)) == expected


def test_a_reducer_that_adds_a_value_to_itself_is_no_monoid() -> None:
    region = combine("add", "f32").replace("%x, %y)", "%y, %y)", 1)
    types, attrs = "4xf32, f32 -> f32", "dimensions = array<i64: 0>"
    signature = written("stablehlo.reduce", types, attrs, region)
    assert monoid_of(signature.lambdas[0]) is None


@pytest.mark.parametrize("monoid", OPS)
def test_reducers_are_recognised(monoid: str) -> None:
    dtype = "i1" if monoid in ("and", "or") else "i32"
    assert monoid_of(reducer(monoid, dtype)) == monoid
