"""fft, cholesky, triangular_solve: batches; and the columns that are solved for."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.attributes import ints
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.registry import rule


def leading(op: Signature, count: int) -> Iterator[Factor]:
    """The first `count` dimensions, in every operand and result that has them."""
    batch = op.operands[0].shape[:count]
    for dim, size in enumerate(batch):
        yield Factor(
            size,
            tuple(dim if t.shape[:count] == batch else None for t in op.operands),
            tuple(dim if t.shape[:count] == batch else None for t in op.results),
        )


@rule("fft")
def fft(op: Signature) -> Iterator[Factor]:
    """``(i, _) -> (i, _)``: all but the last dimensions, which are transformed."""
    transformed = len(ints(op.attrs["fft_length"]))
    yield from leading(op, len(op.operands[0].shape) - transformed)


@rule("cholesky")
def cholesky(op: Signature) -> Iterator[Factor]:
    """``(i, _, _) -> (i, _, _)``: all but the matrix."""
    yield from leading(op, len(op.operands[0].shape) - 2)


@rule("triangular_solve")
def triangular_solve(op: Signature) -> Iterator[Factor]:
    """``(i, _, _), (i, _, j) -> (i, _, j)``: batches, and systems solved together."""
    shape = op.operands[1].shape
    yield from leading(op, len(shape) - 2)
    dim = len(shape) - (1 if op.attrs["left_side"] == "true" else 2)
    yield Factor(shape[dim], (None, dim), (dim,))
