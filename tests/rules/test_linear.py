"""Ops that sums move through: of a sum, they give the sum of what they give."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import tests.rules.samples  # noqa: F401  (registers every family)
from partir.rules.bounds import Known
from partir.rules.linear import kinds, linear
from partir.rules.monoids import identity
from partir.rules.nest import nest_of
from tests.rules.dense import with_dense_products
from tests.rules.samples.sample import Sample, random_value, samples_of
from tests.rules.tiles import Local, compiled, equal


@dataclass(frozen=True)
class Claim:
    """That a sample adds up over these operands, others being one number."""

    sample: Sample
    positions: frozenset[int]
    splats: frozenset[int]
    number: int

    def values(self, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Operands: two summands, then their sum."""
        rest = [
            np.full_like(value, self.number) if i in self.splats else np.asarray(value)
            for i, value in enumerate(self.sample.values)
        ]
        types = self.sample.signature.operands
        parts = [{i: random_value(rng, types[i]) for i in self.positions} for _ in "ab"]
        parts.append({i: parts[0][i] + parts[1][i] for i in self.positions})
        for part in parts:
            yield [part.get(i, value) for i, value in enumerate(rest)]


def claims(sample: Sample) -> Iterator[Claim]:
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

            if linear(op, chosen, Known(splat, lambda _: 1.0)):
                yield Claim(sample, chosen, frozenset(asked - chosen), number)


@pytest.mark.parametrize("kind", kinds())
def test_adds_up(kind: str, x64: None) -> None:
    made = [claim for sample in samples_of(kind)[:8] for claim in claims(sample)]
    assert made, f"no sample of {kind} is linear"
    emitter = Local()
    results = [
        emitter.run(nest_of(claim.sample.signature), claim.sample.splats)[0]
        for claim in made
    ]
    text = emitter.module("sums", emitter.arguments, results)
    call = compiled(with_dense_products(text), [result.type for result in results])
    rng = np.random.default_rng(0)
    runs = zip(*(claim.values(rng) for claim in made), strict=True)
    left, right, both = (call([v for values in run for v in values]) for run in runs)
    for claim, a, b, got in zip(made, left, right, both, strict=True):
        assert equal(a + b, got), claim


@pytest.mark.parametrize(
    ("kind", "label", "positions"),
    [
        ("stablehlo.add", "", {0}),
        ("partir.fused", "linear", {0, 1}),  # a row and what it is multiplied with
        ("partir.fused", "of two rows", {0}),
        ("stablehlo.multiply", "", {0, 1}),
        ("stablehlo.scatter", "add rows 0", {1}),
        ("stablehlo.scatter", "max rows 0", {0, 2}),
        ("stablehlo.reduce", "maximum f64", {0}),
        ("stablehlo.select", "", {0}),
        ("stablehlo.dynamic_slice", "", {1}),
        ("stablehlo.triangular_solve", "", {0}),
    ],
)
def test_does_not_add_up(kind: str, label: str, positions: set[int]) -> None:
    sample = next(s for s in samples_of(kind) if label in s.label)
    assert not linear(sample.signature, frozenset(positions))
