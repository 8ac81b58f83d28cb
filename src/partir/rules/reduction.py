"""reduce and sort: kept dimensions are tiled, reduced ones recombine by the monoid."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.attributes import integer, ints
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.monoids import monoid_of
from partir.rules.registry import rule


@rule("reduce")
def reduce(op: Signature) -> Iterator[Factor]:
    """``(i, k), () -> (i) sum=k``; the initial value counts once.

    Several operands at once (argmax) or a reducer that is no monoid: kept dimensions.
    """
    reduced = ints(op.attrs["dimensions"])
    count = len(op.operands) // 2
    shape = op.operands[0].shape
    inits = (None,) * count
    monoid = monoid_of(op.lambdas[0]) if count == 1 else None
    result = 0
    for dim, size in enumerate(shape):
        if dim not in reduced:
            yield Factor(size, (dim,) * count + inits, (result,) * count)
            result += 1
        elif monoid:
            yield Factor(size, (dim, None), (None,), monoid, once=(1,))


@rule("sort")
def sort(op: Signature) -> Iterator[Factor]:
    """All but the sorted dimension."""
    sorted_dim = integer(op.attrs["dimension"])
    for dim, size in enumerate(op.operands[0].shape):
        if dim != sorted_dim % max(len(op.operands[0].shape), 1):
            yield Factor(size, (dim,) * len(op.operands), (dim,) * len(op.results))
