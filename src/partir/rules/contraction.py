"""Products: batch and free dimensions are tiled, contracted ones summed."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.attributes import fields
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.monoids import adding
from partir.rules.registry import rule


@rule("dot_general")
def dot_general(op: Signature) -> Iterator[Factor]:
    """``(b, i, k), (b, k, j) -> (b, i, j) sum=k``."""
    numbers = fields(op.attrs["dot_dimension_numbers"])
    batch = dim_pairs(numbers, "batching")
    contract = dim_pairs(numbers, "contracting")
    lhs, rhs = op.operands[0].shape, op.operands[1].shape
    result = 0
    for left, right in batch:
        yield Factor(lhs[left], (left, right), (result,), loose=True)
        result += 1
    for dim in free_dims(len(lhs), [p[0] for p in batch + contract]):
        yield Factor(lhs[dim], (dim, None), (result,), loose=True)
        result += 1
    for dim in free_dims(len(rhs), [p[1] for p in batch + contract]):
        yield Factor(rhs[dim], (None, dim), (result,), loose=True)
        result += 1
    monoid = adding(op.results[0].dtype)
    for left, right in contract if monoid else ():
        yield Factor(lhs[left], (left, right), (None,), monoid, loose=True)


@rule("dot")
def dot(op: Signature) -> Iterator[Factor]:
    """``(i, k), (k, j) -> (i, j) sum=k``; i or j may be missing."""
    left, right = op.operands[0].shape, op.operands[1].shape
    result = 0
    for dim, size in enumerate(left[:-1]):
        yield Factor(size, (dim, None), (result,), loose=True)
        result += 1
    for dim, size in enumerate(right[1:], start=1):
        yield Factor(size, (None, dim), (result,), loose=True)
        result += 1
    monoid = adding(op.results[0].dtype)
    if monoid:
        yield Factor(left[-1], (len(left) - 1, 0), (None,), monoid, loose=True)


@rule("einsum")
def einsum(op: Signature) -> Iterator[Factor]:
    """``(i, k), (k, j) -> (i, j) sum=k`` as its own notation says."""
    text = op.attrs["einsum_config"].strip('"').replace(" ", "")
    ins, _, out = text.partition("->")
    sides = [*ins.split(","), out]
    shapes = [t.shape for t in (*op.operands, *op.results)]
    if "." in text or any(len(set(side)) < len(side) for side in sides):
        return  # an ellipsis, a diagonal: nothing that jax writes
    sizes = {
        letter: size
        for side, shape in zip(sides, shapes, strict=True)
        for letter, size in zip(side, shape, strict=True)
    }
    for letter, size in sizes.items():
        dims = [side.find(letter) if letter in side else None for side in sides]
        monoid = adding(op.results[0].dtype)
        if letter in out:
            yield Factor(size, tuple(dims[:-1]), (dims[-1],), loose=True)
        elif monoid:
            yield Factor(size, tuple(dims[:-1]), (None,), monoid, loose=True)


def dim_pairs(numbers: dict[str, tuple[int, ...]], which: str) -> list[tuple[int, int]]:
    """Dimensions of left and right that are `batching` or `contracting`."""
    sides = [numbers.get(f"{side}_{which}_dimensions", ()) for side in ("lhs", "rhs")]
    return list(zip(*sides, strict=True))


def free_dims(rank: int, taken: list[int]) -> list[int]:
    """The other dimensions."""
    return [dim for dim in range(rank) if dim not in taken]
