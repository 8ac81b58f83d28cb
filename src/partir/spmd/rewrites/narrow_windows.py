"""Windows of what is made row by row: made of windows of what it is made of.

Fused projections (q-k-v, gate and up) are read in slices that lie across tiles. What
neighbours hold of the weight is less than what they hold of the activations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partir.ir.core import Signature
from partir.ir.filled import filled, literal_of
from partir.ir.types import TensorType
from partir.rules.identities import ROWWISE, cites
from partir.rules.nest import Nest, nest_of
from partir.rules.registry import attrs_hook, form_hook
from partir.spmd.program import EXCHANGE, Cause, Collective, Compute, SpmdOp
from partir.spmd.rewrites.sweep import Sweep

_DEPTH = 4  # how many ops are looked through


@cites(ROWWISE)
def narrow_windows(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Exchange a weight instead of the product, if that has more bytes in a row.

    Only if nothing but windows of the product is read, no row in two of them.

    rewrite:
        %p = dot %x, %w                   : f32[512,24]
        %q = exchange 1 [%X*8 : +8] %p    : f32[512,8]
        ->
        %v = exchange 1 [%X*8 : +8] %w    : f32[64,8]
        %q = dot %x, %v                   : f32[512,8]
    """
    exchanges = [op for op in sweep.block.moves if op.kind == EXCHANGE]
    if not exchanges:
        return ops
    found = _Windows(sweep, ops, exchanges)
    chosen = {op.result for op in exchanges if found.is_narrower(op)}
    if not chosen:
        return ops
    made: list[SpmdOp] = []
    for op in ops:
        if isinstance(op, Collective) and op.result in chosen:
            made += found.narrowed(op)
        else:
            made.append(op)
    return made


@dataclass(frozen=True, slots=True)
class _Rows:
    """An op whose results have a row for each row of some operands."""

    op: Compute
    dims: tuple[int | None, ...]  # of each operand, the dimension of its rows


class _Windows:
    """Where windows of values are made of windows of operands."""

    def __init__(
        self, sweep: Sweep, ops: Sequence[SpmdOp], exchanges: Sequence[Collective]
    ) -> None:
        self.sweep = sweep
        self.makers = {op.results[0]: op for op in ops if isinstance(op, Compute)}
        self.readers: dict[int, list[Collective]] = {}
        for op in exchanges:
            self.readers.setdefault(op.operand, []).append(op)

    def is_narrower(self, exchange: Collective) -> bool:
        """Whether to exchange operands of what makes the value instead."""
        readers = self.readers[exchange.operand]
        alike = {(op.dim, op.axes) for op in readers}
        windows = [op.window for op in readers if op.window is not None]
        rows = self.sweep.types[exchange.operand].shape[exchange.dim]
        if len(alike) > 1 or sum(w.extent.length for w in windows) > rows:
            return False
        return self._rows(exchange.operand, exchange, len(readers)) is not None

    def _rows(
        self, value: int, like: Collective, reads: int = 1, depth: int = _DEPTH
    ) -> _Rows | None:
        """How a value is made row by row, if what it is made of has less in a row."""
        op = self.makers.get(value)
        if op is None or not depth or self.sweep.reads[value] != reads:
            return None
        dims = _row_dims(op.nest, like.dim, like.axes)
        if dims is None:
            return None
        rows = _Rows(op, dims)
        own = _row_bytes(self.sweep.types[value], like.dim)
        return rows if self._bytes(rows, like, depth) < own else None

    def _bytes(self, rows: _Rows, like: Collective, depth: int) -> float:
        """Bytes in a row of all that is exchanged instead."""
        total = 0.0
        for value, dim in zip(rows.op.operands, rows.dims, strict=True):
            if dim is None:
                continue
            at = like._replace(dim=dim)
            inner = self._rows(value, at, depth=depth - 1)
            if inner is None:
                total += _row_bytes(self.sweep.types[value], dim)
            else:
                total += self._bytes(inner, at, depth - 1)
        return total

    def narrowed(self, exchange: Collective) -> Iterator[SpmdOp]:
        """What makes the window, in order."""
        rows = self._rows(
            exchange.operand, exchange, len(self.readers[exchange.operand])
        )
        assert rows is not None
        yield from self._made(rows, exchange, _DEPTH)

    def _made(self, rows: _Rows, exchange: Collective, depth: int) -> Iterator[SpmdOp]:
        """An op on windows of its operands, and before it, those windows."""
        window, op, source = exchange.window, rows.op, self.sweep.program.program
        assert window is not None
        operands = list(op.operands)
        for position, dim in enumerate(rows.dims):
            if dim is None:
                continue
            value, read = op.operands[position], source.ops[op.node].operands[position]
            type_ = _with_rows(self.sweep.types[value], dim, window.extent.length)
            operands[position] = self.sweep.new(type_)
            cause = Cause(read, source.producers.get(read), op.node)
            at = exchange._replace(
                operand=value, result=operands[position], cause=cause, dim=dim
            )
            inner = self._rows(value, at, depth=depth - 1)
            if inner is None:
                yield at
            else:
                yield from self._made(inner, at, depth - 1)
        nest = _resized(op.nest, rows.dims, exchange)
        yield Compute(op.node, nest, tuple(operands), exchange.results)


def _row_bytes(type_: TensorType, dim: int) -> float:
    return type_.bytes / type_.shape[dim] if type_.shape[dim] else 0.0


def _with_rows(type_: TensorType, dim: int, rows: int) -> TensorType:
    shape = type_.shape
    return type_.with_shape((*shape[:dim], rows, *shape[dim + 1 :]))


def _row_dims(
    nest: Nest, dim: int, axes: tuple[str, ...]
) -> tuple[int | None, ...] | None:
    """Of each operand, the dimension that has a row for each of the result's.

    None if rows are made otherwise: in windows, by a sum, by where they lie.
    """
    signature, kind = nest.signature, nest.signature.kind
    alike = literal_of(signature) is not None  # all rows, wherever they lie
    special = (form_hook(kind) or attrs_hook(kind)) and not alike
    if special or len(signature.results) != 1:
        return None
    along = [loop for loop in nest.loops if loop.factor.results[0] == dim]
    if tuple(loop.axis for loop in along) != axes:
        return None
    dims = along[0].factor.operands
    whole = signature.results[0].shape[dim]
    for loop in nest.loops:
        factor = loop.factor
        if factor.reach or factor.once:
            return None
        if loop in along and factor.operands != dims:
            return None
    for position, place in enumerate(dims):
        if place is not None and (
            signature.operands[position].shape[place] != whole
            or nest.needs[position][place] != axes
        ):
            return None
    return dims


def _retyped(
    signature: Signature, operands: tuple[TensorType, ...], result: TensorType
) -> Signature:
    literal = literal_of(signature)
    if literal is not None:
        return filled(result, literal)
    return Signature.of(
        signature.kind, signature.attrs, operands, (result,), signature.lambdas
    )


def _resized(nest: Nest, dims: tuple[int | None, ...], exchange: Collective) -> Nest:
    """The same loops over as many rows as windows have."""
    window, signature = exchange.window, nest.signature
    assert window is not None
    whole = window.extent.length
    for size in window.parts:
        whole *= size
    operands = tuple(
        type_ if dim is None else _with_rows(type_, dim, whole)
        for type_, dim in zip(signature.operands, dims, strict=True)
    )
    (before,) = signature.results
    axis = next(loop for loop in nest.loops if loop.axis in exchange.axes)
    made_dim = axis.factor.results[0]
    assert made_dim is not None
    made = nest_of(_retyped(signature, operands, _with_rows(before, made_dim, whole)))
    for loop in nest.loops:
        index = made.factor_like(loop.factor)
        assert index is not None
        made = made.inside(loop.axis, loop.size, index)
    return made
