"""Samples of products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.rules.samples.sample import Sample, sample, written

# Types, and the batching and contracting dimensions of left and right.
_DOTS = (
    ("4x6xf64, 6x4xf64 -> 4x4xf64", ((), (), (1,), (0,))),
    ("2x4x3xf64, 2x3x6xf64 -> 2x4x6xf64", ((0,), (0,), (2,), (1,))),
    ("4x2x6x3xi32, 6x4x3x2xi32 -> 2x3x3xi32", ((1,), (3,), (0, 2), (1, 0))),
    ("3x4x2xf64, 2x3xf64 -> 3x2x4xf64", ((0, 2), (1, 0), (), ())),
    ("4xi32, 6xi32 -> 4x6xi32", ((), (), (), ())),
    ("4x6xf64, 6x4xf64 -> f64", ((), (), (0, 1), (1, 0))),
)


@sample("dot_general")
def dot_general(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Plain, batched, contracted twice, outer product, a scalar; then random ones."""
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
    for types, dims in (*_DOTS, *(_random_dot(rng) for _ in range(4))):
        numbers = ", ".join(
            f"{name}_dimensions = {list(d)}"
            for name, d in zip(names, dims, strict=True)
        )
        attrs = f"dot_dimension_numbers = #stablehlo.dot<{numbers}>"
        yield Sample(types, written(kind, types, attrs))


def _random_dot(rng: np.random.Generator) -> tuple[str, tuple[tuple[int, ...], ...]]:
    """Named dimensions in a random order on either side."""
    sizes = {name: int(rng.choice([2, 3, 4])) for name in "abcdef"}
    batch, left, right, contracted = "ab"[: rng.integers(3)], "c", "d", "ef"
    lhs = [str(n) for n in rng.permutation([*batch, left, *contracted])]
    rhs = [str(n) for n in rng.permutation([*batch, right, *contracted])]
    types = [
        "x".join([*(str(sizes[name]) for name in names), "i32"])
        for names in (lhs, rhs, [*batch, left, right])
    ]
    dims = tuple(
        tuple(side.index(name) for name in group)
        for group in (batch, contracted)
        for side in (lhs, rhs)
    )
    return f"{types[0]}, {types[1]} -> {types[2]}", dims


@sample("dot")
def dot(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Matrices and vectors."""
    for types in ("4x6xi32, 6x2xi32 -> 4x2xi32", "6xf64, 6xf64 -> f64"):
        yield Sample(types, written(kind, types))
    for types in ("4x6xi32, 6xi32 -> 4xi32", "6xi32, 6x4xi32 -> 4xi32"):
        yield Sample(types, written(kind, types))


@sample("einsum")
def einsum(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Batched, transposed; a dimension of one side that is summed."""
    for types, config in (
        ("2x4x6xi32, 2x6x3xi32 -> 3x2x4xi32", "bij,bjk->kbi"),
        ("4x6xf64, 4x2xf64 -> 4xf64", "ij,ik->i"),
    ):
        yield Sample(config, written(kind, types, f'einsum_config = "{config}"'))
