"""dot_general: batch and free dimensions are tiled, contracted ones summed."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.attributes import fields
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.registry import rule


@rule("dot_general")
def dot_general(op: Signature) -> Iterator[Factor]:
    """``(b, i, k), (b, k, j) -> (b, i, j) sum=k``."""
    numbers = fields(op.attrs["dot_dimension_numbers"])
    batch = _pairs(numbers, "batching")
    contract = _pairs(numbers, "contracting")
    lhs, rhs = op.operands[0].shape, op.operands[1].shape
    result = 0
    for left, right in batch:
        yield Factor(lhs[left], (left, right), (result,))
        result += 1
    for dim in _free(len(lhs), [p[0] for p in batch + contract]):
        yield Factor(lhs[dim], (dim, None), (result,))
        result += 1
    for dim in _free(len(rhs), [p[1] for p in batch + contract]):
        yield Factor(rhs[dim], (None, dim), (result,))
        result += 1
    for left, right in contract:
        yield Factor(lhs[left], (left, right), (None,), "sum")


def _pairs(numbers: dict[str, tuple[int, ...]], which: str) -> list[tuple[int, int]]:
    sides = [numbers.get(f"{side}_{which}_dimensions", ()) for side in ("lhs", "rhs")]
    return list(zip(*sides, strict=True))


def _free(rank: int, taken: list[int]) -> list[int]:
    return [dim for dim in range(rank) if dim not in taken]
