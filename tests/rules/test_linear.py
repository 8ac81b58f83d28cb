"""Ops that sums move through: of a sum, they give the sum of what they give.

The table itself says what is tested: every sample of every kind in it, with numbers by
lot, with those at the edges of their types, and with pieces of such.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import tests.rules.samples  # noqa: F401  (registers every family)
from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.rules.bounds import NONE, Known
from partir.rules.identities import FINITE
from partir.rules.linear import kinds, linear
from partir.rules.monoids import identity
from partir.rules.nest import nest_of
from tests.rules.dense import with_dense_products
from tests.rules.samples.sample import (
    Sample,
    numpy_dtype,
    random_value,
    samples_of,
    written,
)
from tests.rules.tiles import Local, compiled, equal

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Two summands, and their sum."""

Draw = Callable[[np.random.Generator, TensorType], Parts]


@dataclass(frozen=True)
class Claim:
    """That a sample adds up over these operands, others being one number."""

    sample: Sample
    positions: frozenset[int]
    splats: frozenset[int]
    number: int

    def values(self, draw: Draw) -> list[list[np.ndarray]]:
        """Operands: two summands, then their sum."""
        rest = [
            np.full_like(value, self.number) if i in self.splats else np.asarray(value)
            for i, value in enumerate(self.sample.values)
        ]
        rng = np.random.default_rng(0)
        types = self.sample.signature.operands
        drawn = {i: draw(rng, types[i]) for i in sorted(self.positions)}
        return [
            [drawn[i][part] if i in drawn else value for i, value in enumerate(rest)]
            for part in range(3)
        ]


def claims(sample: Sample, pieces: bool = False) -> Iterator[Claim]:
    """What the table says of one or two operands together, in types that add well."""
    op = sample.signature
    operands = [i for i, t in enumerate(op.operands) if t.dtype not in ("i1", "bf16")]
    for count, number in itertools.product((1, 2), (0, 1)):
        for chosen in map(frozenset, itertools.combinations(operands, count)):
            asked: set[int] = set()

            def splat(position: int) -> str:
                asked.add(position)  # noqa: B023
                monoid = "mul" if number else "sum"  # noqa: B023
                return identity(monoid, op.operands[position])

            if linear(op, chosen, Known(splat, lambda _: 1.0), pieces):
                yield Claim(sample, chosen, frozenset(asked - chosen), number)


# Numbers to add


def any_numbers(rng: np.random.Generator, type_: TensorType) -> Parts:
    left, right = random_value(rng, type_), random_value(rng, type_)
    return left, right, left + right


def edges(rng: np.random.Generator, type_: TensorType) -> np.ndarray:
    """Infinities, nan, zeros; the least and the greatest of integers."""
    dtype = numpy_dtype(type_.dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        pool = np.array([limits.min, limits.max, limits.max // 2 + 1, 0, 1], dtype)
    else:
        pool = np.array([0.0, -0.0, 1.0, -1.5, 16.0, np.inf, -np.inf, np.nan])
    made = pool[rng.integers(0, len(pool), type_.shape)]
    return np.asarray(made + 0j if dtype.kind == "c" else made).astype(dtype)


def sums_of_edges(rng: np.random.Generator, type_: TensorType) -> Parts:
    left, right = edges(rng, type_), edges(rng, type_)
    return left, right, left + right


def pieces_of_edges(rng: np.random.Generator, type_: TensorType) -> Parts:
    whole, mask = edges(rng, type_), rng.random(type_.shape) < 0.5
    nothing = -np.zeros_like(whole)
    return np.where(mask, whole, nothing), np.where(mask, nothing, whole), whole


def assert_add_up(made: list[Claim], *draws: Draw) -> None:
    emitter = Local()
    results = [
        emitter.run(nest_of(claim.sample.signature), claim.sample.splats)[0]
        for claim in made
    ]
    text = emitter.module("sums", emitter.arguments, results)
    call = compiled(with_dense_products(text), [result.type for result in results])
    for draw in draws:
        with np.errstate(all="ignore"):
            runs = zip(*(claim.values(draw) for claim in made), strict=True)
            parts = [call([v for values in run for v in values]) for run in runs]
            for claim, a, b, got in zip(made, *parts, strict=True):
                assert equal(a + b, got), claim


# The table


@pytest.mark.identity("added", "moved", "negated", "scaled", "divided", "composed")
@pytest.mark.identity("multiplied", "transformed")
@pytest.mark.parametrize("kind", kinds())
def test_adds_up(kind: str, x64: None) -> None:
    """With numbers by lot; at the edges unless it assumes that operands are finite."""
    samples = samples_of(kind)[:8]
    made = [claim for sample in samples for claim in claims(sample)]
    assert made, f"no sample of {kind} is linear"
    everywhere = FINITE not in kinds()[kind].assumes
    assert_add_up(made, any_numbers, *[sums_of_edges] * everywhere)
    if kinds()[kind].name != "transformed":
        strict = [claim for sample in samples for claim in claims(sample, pieces=True)]
        assert strict, f"no pieces move through {kind}"
        assert_add_up(strict, pieces_of_edges)


def sample_of(kind: str, label: str = "") -> Signature:
    return next(s.signature for s in samples_of(kind) if label in s.label)


@pytest.mark.identity("composed")
@pytest.mark.parametrize(
    ("kind", "label", "positions"),
    [
        ("stablehlo.add", "", {0}),
        ("partir.fused", "linear", {0, 1}),  # a row and what it is multiplied with
        ("partir.fused", "of two rows", {0}),
        ("stablehlo.multiply", "", {0, 1}),
        ("stablehlo.multiply", "", {0}),  # the other may be infinite
        ("stablehlo.divide", "", {0}),
        ("stablehlo.divide", "", {1}),
        ("stablehlo.scatter", "add rows 0", {1}),
        ("stablehlo.scatter", "max rows 0", {0, 2}),
        ("stablehlo.reduce", "maximum f64", {0}),
        ("stablehlo.select", "", {0}),
        ("stablehlo.dynamic_slice", "", {1}),
        ("stablehlo.triangular_solve", "unit_diagonal = true", {0}),
        ("stablehlo.triangular_solve", "unit_diagonal = false", {1}),
    ],
)
def test_does_not_add_up(kind: str, label: str, positions: set[int]) -> None:
    assert not linear(sample_of(kind, label), frozenset(positions))


DOT = "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]"


@pytest.mark.identity("multiplied")
@pytest.mark.parametrize(
    ("left", "right", "result", "expected"),
    [
        ("i8", "i8", "i8", True),
        ("i8", "i8", "i32", False),  # it wraps around at another place
        ("ui8", "ui8", "i32", False),
        ("i32", "i8", "i32", True),  # the other one is the same everywhere
        ("i1", "i1", "i32", False),
        ("f32", "f32", "f32", True),
        ("bf16", "bf16", "f32", True),
        ("f32", "f32", "bf16", False),  # it would be added in fewer bits
        ("i8", "i8", "f32", False),
        ("f32", "i8", "f32", True),
    ],
)
def test_products_add_up_within_a_type(
    left: str, right: str, result: str, expected: bool
) -> None:
    types = f"2x3x{left}, 3x4x{right} -> 2x4x{result}"
    attrs = f"dot_dimension_numbers = #stablehlo.dot<{DOT}>"
    op = written("stablehlo.dot_general", types, attrs)
    assert linear(op, frozenset({0})) is expected


def known(splat: str | None = None, bound: float = NONE) -> Known:
    return Known(lambda _: splat, lambda _: bound)


@pytest.mark.identity("scaled", "divided")
def test_factors_are_finite_and_divisors_numbers() -> None:
    multiply = written("stablehlo.multiply", "4xf32, 4xf32 -> 4xf32")
    divide = written("stablehlo.divide", "4xf32, 4xf32 -> 4xf32")
    integers = written("stablehlo.multiply", "4xi8, 4xi8 -> 4xi8")
    first = frozenset({0})
    assert linear(multiply, first, known(bound=3.0))
    assert not linear(multiply, first, known("0x7F800000"))
    assert linear(integers, first)
    assert linear(divide, first, known("2.000000e+00", 2.0))
    assert not linear(divide, first, known("0.000000e+00", 0.0))
    assert not linear(divide, first, known(bound=3.0))  # it may be zero


@pytest.mark.identity("multiplied", "transformed")
def test_pieces_meet_finite_numbers_only() -> None:
    dot, fft = sample_of("stablehlo.dot_general", "f64"), sample_of("stablehlo.fft")
    first = frozenset({0})
    assert linear(dot, first)
    assert not linear(dot, first, pieces=True)
    assert linear(dot, first, known(bound=1.0), pieces=True)
    assert linear(fft, first)
    assert not linear(fft, first, pieces=True)
