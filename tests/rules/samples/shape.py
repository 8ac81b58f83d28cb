"""Samples of ops that make or move data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partir.ir.attributes import ROLL
from partir.ir.core import Signature
from partir.ir.types import tensor
from tests.rules.samples.sample import Sample, pick, sample, written


def _dims(values: tuple[int, ...]) -> str:
    items = ", ".join(map(str, values))
    return f"array<i64: {items}>" if values else "array<i64>"


@sample("broadcast_in_dim")
def broadcast_in_dim(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """New, stretched and kept dimensions; a scalar."""
    for types, dims in (
        ("4xf64 -> 6x4xf64", (1,)),
        ("4x1xf64 -> 4x6x3xf64", (0, 1)),
        ("2x4xf64 -> 4x3x2xf64", (2, 0)),
        ("i32 -> 4x6xi32", ()),
        *(_random_broadcast(rng) for _ in range(3)),
    ):
        attrs = f"broadcast_dimensions = {_dims(dims)}"
        yield Sample(f"{types} {dims}", written(kind, types, attrs))


def _random_broadcast(rng: np.random.Generator) -> tuple[str, tuple[int, ...]]:
    whole = [int(n) for n in rng.choice([2, 3, 4], size=3)]
    dims = tuple(int(d) for d in rng.permutation(3)[: rng.integers(1, 4)])
    operand = [whole[d] if rng.random() < 0.7 else 1 for d in dims]
    ins, outs = ("x".join(map(str, shape)) for shape in (operand, whole))
    return f"{ins}xi32 -> {outs}xi32", dims


@sample("broadcast")
def broadcast(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """One new dimension, and two."""
    for types, sizes in (
        ("4xf64 -> 6x4xf64", (6,)),
        ("4x2xf64 -> 2x3x4x2xf64", (2, 3)),
    ):
        yield _window(kind, types, broadcast_sizes=sizes)


@sample("transpose")
def transpose(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Random permutations of three dimensions, and of two."""
    for shape in ((4, 6), (2, 4, 6), (6, 2, 4)):
        order = tuple(int(d) for d in rng.permutation(len(shape)))
        ins, outs = ("x".join(map(str, s)) for s in (shape, [shape[d] for d in order]))
        types = f"{ins}xf64 -> {outs}xf64"
        attrs = f"permutation = {_dims(order)}"
        yield Sample(f"{types} {order}", written(kind, types, attrs))


_RESHAPES = (
    "4x6 -> 24",
    "24 -> 4x6",
    "2x3x4 -> 6x4",
    "12x4 -> 3x4x4",
    "4x6 -> 6x4",
    "4x3x2 -> 4x6",
    "6x2 -> 4x3",
    "1x4x6 -> 4x1x6",
    "2x6 -> 4x3",
    "2x2x6 -> 24",
    "8x3 -> 2x12",
    "4x1x3x2 -> 2x2x6x1",
    "4x6 -> 4x6",
    "1x1 -> 1",
)


@sample("reshape")
def reshape(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Splits, merges, both at once, size-1 dimensions; three loops deep."""
    for types in (*_RESHAPES, *(_random_reshape(rng) for _ in range(6))):
        ins, outs = types.split(" -> ")
        yield Sample(types, written(kind, f"{ins}xi32 -> {outs}xi32"), depth=3)


def _random_reshape(rng: np.random.Generator) -> str:
    primes = [int(p) for p in rng.choice([2, 2, 3], size=4)]
    sides = []
    for _ in range(2):
        shape = [1]
        for prime in primes:
            if rng.random() < 0.5:
                shape.append(prime)
            else:
                shape[-1] *= prime
        sides.append("x".join(map(str, shape)))
    return " -> ".join(sides)


@sample("constant")
def constant(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """One number everywhere, of each spelling, and different numbers."""
    numbers = np.arange(24).reshape(4, 6).tolist()
    for dtype, text in (
        ("f64", "1.5"),
        ("i1", "true"),
        ("f32", "0x7F800000"),
        ("i32", str(numbers)),
        ("i8", '"0x' + bytes(range(24)).hex() + '"'),
    ):
        attrs = f"value = dense<{text}> : tensor<4x6x{dtype}>"
        yield Sample(text, written(kind, f"-> 4x6x{dtype}", attrs))
    odd = np.arange(35).reshape(5, 7).tolist()
    attrs = f"value = dense<{odd}> : tensor<5x7xi32>"
    yield Sample("odd sizes", written(kind, "-> 5x7xi32", attrs))


@sample("iota")
def iota(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Along each dimension, in each class of element types."""
    for dim, dtype in ((0, "i32"), (1, "i64"), (2, "ui8"), (1, "f64"), (0, "bf16")):
        attrs = f"iota_dimension = {dim} : i64"
        label = f"{dtype} along {dim}"
        yield Sample(label, written(kind, f"-> 4x6x2x{dtype}", attrs))


@sample("concatenate")
def concatenate(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Two and three operands, along the first, middle and last dimension.

    Short ones at both ends, and over the edge of a tile.
    """
    for types, dim in (
        ("4x6xf64, 2x6xf64 -> 6x6xf64", 0),
        ("2x4x6xf64, 2x1x6xf64, 2x3x6xf64 -> 2x8x6xf64", 1),
        ("4x6xf64, 4x6xf64 -> 4x12xf64", 1),
        ("1x6xf64, 9x6xf64, 2x6xf64 -> 12x6xf64", 0),
        ("8x2xf64, 3x2xf64, 7x2xf64 -> 18x2xf64", 0),
        ("2x2xf64, 5x2xf64, 18x2xf64 -> 25x2xf64", 0),  # one is as long as a tile
    ):
        yield Sample(types, written(kind, types, f"dimension = {dim} : i64"))


def _window(kind: str, types: str, **fields: tuple[int, ...]) -> Sample:
    attrs = ", ".join(f"{name} = {_dims(value)}" for name, value in fields.items())
    return Sample(f"{types} {attrs}", written(kind, types, attrs))


@sample("slice")
def slice_(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """A part of one dimension, with and without steps; all of it; random parts."""
    for types, starts, limits, strides in (
        ("4x6xf64 -> 2x6xf64", (1, 0), (3, 6), (1, 1)),
        ("4x6x2xf64 -> 4x3x2xf64", (0, 1, 0), (4, 6, 2), (1, 2, 1)),
        ("4x6xf64 -> 4x6xf64", (0, 0), (4, 6), (1, 1)),
        ("4x1xf64 -> 4x1xf64", (0, 0), (4, 1), (1, 3)),
        ("4x12xf64 -> 2x4xf64", (1, 2), (4, 12), (2, 3)),
        ("4x12xf64 -> 2x4xf64", (0, 1), (3, 11), (2, 3)),
        ("4x6x2xf64 -> 1x6x1xf64", (3, 0, 1), (4, 6, 2), (1, 1, 1)),
        ("8x4xi1 -> 1x1xi1", (5, 0), (6, 1), (1, 1)),
        *(_random_slice(rng) for _ in range(3)),
    ):
        yield _window(
            kind, types, start_indices=starts, limit_indices=limits, strides=strides
        )


def _random_slice(rng: np.random.Generator) -> tuple[Any, ...]:
    whole = (4, 6, 2)
    kept = [rng.random() < 0.5 for _ in whole]
    starts = tuple(
        0 if k else int(rng.integers(n)) for k, n in zip(kept, whole, strict=True)
    )
    strides = tuple(1 if k else int(rng.integers(1, 3)) for k in kept)
    result = "x".join(
        str(-(-(n - start) // step))
        for n, start, step in zip(whole, starts, strides, strict=True)
    )
    return f"4x6x2xf64 -> {result}xf64", starts, whole, strides


@sample("pad")
def pad(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Before, behind, between; cut off; moved."""
    for types, low, high, interior in (
        ("4x6xf64, f64 -> 7x6xf64", (1, 0), (2, 0), (0, 0)),
        ("4x6x2xf64, f64 -> 4x11x2xf64", (0, 0, 0), (0, 0, 0), (0, 1, 0)),
        ("4x6xf64, f64 -> 4x5xf64", (0, -2), (0, 1), (0, 0)),
        ("4x6xf64, f64 -> 4x6xf64", (1, 0), (-1, 0), (0, 0)),
        ("4x6xf64, f64 -> 8x18xf64", (1, 1), (0, 1), (1, 2)),
        ("4x6xf64, f64 -> 8x18xf64", (2, 0), (-1, 2), (1, 2)),
    ):
        yield _window(
            kind,
            types,
            edge_padding_low=low,
            edge_padding_high=high,
            interior_padding=interior,
        )


@sample(ROLL)
def roll(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """By a few rows, by many; fewer rows than there are, more, more than twice."""
    for start, rows in ((1, 12), (7, 12), (11, 4), (10, 15), (5, 30), (2, 7)):
        attrs = {"dimension": "1 : i64", "start": f"{start} : i64"}
        types = tensor((2, 12), "i32"), tensor((2, rows), "i32")
        signature = Signature.of(kind, attrs, types[:1], types[1:])
        yield Sample(f"{kind} {start} {rows}", signature)


@sample("reverse")
def reverse(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """One dimension, two, none."""
    for dims in ((0,), (2, 0), ()):
        shape = pick(rng, ("4x6x2", "6x4x2"))
        yield _window(kind, f"{shape}xf64 -> {shape}xf64", dimensions=dims)
