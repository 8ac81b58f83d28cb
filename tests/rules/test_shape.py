"""Reshape's rule against brute force: every pair of small shapes, every tiling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.rules.nest import nest_of

Shape = tuple[int, ...]


def shapes(size: int, rank: int) -> Iterator[Shape]:
    """All shapes of at most this rank with so many elements."""
    for length in range(1, rank + 1):
        for shape in itertools.product(range(1, size + 1), repeat=length):
            if np.prod(shape) == size:
                yield shape


def exact(before: Shape, after: Shape, left: int, right: int, count: int) -> bool:
    """Whether tiles of `before` along `left` are those of `after` along `right`."""
    if before[left] % count or after[right] % count:
        return False
    x = np.arange(np.prod(before)).reshape(before)
    y = x.reshape(after)
    return all(
        np.array_equal(a.ravel(), b.ravel())
        for a, b in zip(
            np.split(x, count, left), np.split(y, count, right), strict=True
        )
    )


@pytest.mark.parametrize("size", [4, 6, 8, 12, 16])
def test_all_exact_tilings_and_no_others(size: int) -> None:
    for before, after in itertools.product(shapes(size, 3), repeat=2):
        types = ((tensor(before, "i32"),), (tensor(after, "i32"),))
        nest = nest_of(Signature.of("stablehlo.reshape", {}, *types))
        found = {
            (f.operands[0], f.results[0], count)
            for f in nest.factors
            for count in range(2, f.size + 1)
            if f.size % count == 0
        }
        expected = {
            (left, right, count)
            for left, right in itertools.product(range(len(before)), range(len(after)))
            for count in range(2, size + 1)
            if exact(before, after, left, right, count)
        }
        assert found == expected, f"{before} -> {after}"
