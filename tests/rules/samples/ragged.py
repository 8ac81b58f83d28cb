"""Samples of ragged_dot."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.rules.samples.sample import Sample, random_value, sample, written

# Types; batching and contracting dimensions of left and right; ragged dimension,
# dimension of groups; sizes of the groups, not always of all rows.
_FREE = (
    ("8x4xf64, 4x4x3xf64, 4xi32 -> 8x3xf64", ((), (), (1,), (1,)), 0, [0]),
    ("2x8x3xi32, 4x2x3x2xi32, 2x4xi32 -> 2x8x2xi32", ((0,), (1,), (2,), (2,)), 1, [0]),
    ("2x8x3xi32, 2x3x4x2xi32, 4xi64 -> 2x8x2xi32", ((0,), (0,), (2,), (1,)), 1, [2]),
)
_CONTRACTED = (
    ("8x4xf64, 8x3xf64, 4xi32 -> 4x4x3xf64", ((), (), (0,), (0,)), 0, []),
    ("2x8x3xi32, 2x8x2xi32, 2x4xi32 -> 4x2x3x2xi32", ((0,), (0,), (1,), (1,)), 1, []),
)
_BATCHES = (
    ("8x2x3xf64, 8x3x2xf64, 4xi32 -> 8x2x2xf64", ((0,), (0,), (2,), (1,)), 0, []),
)


@sample("chlo.ragged_dot")
def ragged_dot(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Groups of rows, of what is summed over, of batches; sizes also per batch."""
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
    for types, dims, ragged, groups in (*_FREE, *_CONTRACTED, *_BATCHES):
        numbers = ", ".join(
            f"{name}_dimensions = {list(d)}"
            for name, d in zip(names, dims, strict=True)
        )
        numbers += f", lhs_ragged_dimensions = [{ragged}]"
        numbers += f", rhs_group_dimensions = {groups}"
        attrs = f"ragged_dot_dimension_numbers = #chlo.ragged_dot<{numbers}>"
        signature = written(kind, types, attrs)
        left, right, sizes = signature.operands
        for label, counts in (("some", (2, 0, 3, 1)), ("all", (1, 4, 0, 3))):
            values = np.resize(counts, sizes.shape).astype(
                sizes.dtype.replace("i", "int")
            )
            given = (random_value(rng, left), random_value(rng, right), values)
            yield Sample(f"{types} {label}", signature, given=given)
