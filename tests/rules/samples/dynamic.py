"""Samples of ops that take a shape as an operand, and of random bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.rules.samples.sample import Sample, random_value, sample, written


def _shaped(kind: str, types: str, attrs: str = "") -> Sample:
    """The last operand is the shape of the result."""
    signature = written(kind, types, attrs)
    rng = np.random.default_rng(0)
    given = [random_value(rng, t) for t in signature.operands[:-1]]
    shape = np.array(signature.results[0].shape, np.int32)
    return Sample(types, signature, given=(*given, shape))


@sample("dynamic_reshape")
def dynamic_reshape(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """A merge and a split."""
    yield _shaped(kind, "4x6xf64, 1xi32 -> 24xf64")
    yield _shaped(kind, "24x2xf64, 3xi32 -> 4x6x2xf64")


@sample("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Kept, stretched and new dimensions."""
    attrs = "broadcast_dimensions = array<i64: 2, 0>"
    attrs += ", known_expanding_dimensions = array<i64: 1>"
    yield _shaped(kind, "4x1xf64, 3xi32 -> 6x2x4xf64", attrs)


@sample("dynamic_iota")
def dynamic_iota(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Along either dimension."""
    for dim in (0, 1):
        yield _shaped(kind, "2xi32 -> 4x6xi32", f"iota_dimension = {dim} : i64")


@sample("get_dimension_size")
def get_dimension_size(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Of the dimension that is tiled, and of another one."""
    for dim in (0, 1):
        attrs = f"dimension = {dim} : i64"
        yield Sample(attrs, written(kind, "4x6xf64 -> i32", attrs))


@sample("rng_bit_generator")
def rng_bit_generator(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Each algorithm, each width of the bits."""
    for name, dtype in (
        ("DEFAULT", "ui32"),
        ("THREE_FRY", "ui8"),
        ("PHILOX", "ui64"),
    ):
        attrs = f"rng_algorithm = #stablehlo<rng_algorithm {name}>"
        types = f"2xui64 -> 2xui64, 4x6x{dtype}"
        yield Sample(f"{name} {dtype}", written(kind, types, attrs))
