"""Copies around collectives along an inner dimension, where tiles are moved as pieces.

What is gathered comes one tile behind the other, and is put in order for those who read
it; what is scattered is put so before. Programs are exported so for CPUs
(`spmd/stablehlo/outer_tiles.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.rules.nest import nest_of
from partir.spmd.program import Collective, Compute, SpmdOp, node_of
from partir.spmd.rewrites.sweep import Sweep


def copy_tiles(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Write what is gathered or scattered along an inner dimension once more.

    rewrite:
        %1 = all_gather 1 {B} %0 ; %2 = tanh %1
        ->
        %1 = all_gather 1 {B} %0 ; %3 = transpose %1 ; %2 = tanh %3
    """
    made: list[SpmdOp] = []
    ordered: dict[int, int] = {}  # what is gathered, put in order
    for op in ops:
        if ordered:
            op = _reading(op, ordered)
        node = node_of(op)
        whole = _moved_whole(sweep, op)
        if node is None or whole is None or not isinstance(op, Collective):
            made.append(op)
            continue
        copy = sweep.new(whole)
        count = math.prod(sweep.program.mesh.axes[axis] for axis in op.axes)
        nest = nest_of(_ordering(whole, op.dim, count))
        if op.kind == "reduce_scatter":
            made.append(Compute(node, nest, (op.operand,), (copy,)))
            made.append(op._replace(operand=copy))
        else:
            made += (op, Compute(node, nest, (op.result,), (copy,)))
            ordered[op.result] = copy
    return made if len(made) > len(ops) else ops


def _moved_whole(sweep: Sweep, op: SpmdOp) -> TensorType | None:
    """The whole of what is moved, if its tiles are not a piece of memory each.

    None for what the block gives back: nobody reads that here.
    """
    if not isinstance(op, Collective):
        return None
    if op.kind == "reduce_scatter":
        whole = sweep.types[op.operand]
    elif op.kind == "all_gather" and op.result not in sweep.block.results:
        whole = sweep.types[op.result]
    else:
        return None
    return whole if math.prod(whole.shape[: op.dim]) > 1 else None


def _ordering(whole: TensorType, dim: int, count: int) -> Signature:
    """A transpose that puts tiles along a dimension in order."""
    tile = -(-whole.shape[dim] // count)
    outer, inner = whole.shape[:dim], whole.shape[dim + 1 :]
    order = (*range(1, dim + 1), 0, *range(dim + 1, len(whole.shape) + 1))
    return Signature.of(
        "stablehlo.transpose",
        {"permutation": f"array<i64: {', '.join(map(str, order))}>"},
        (whole.with_shape((count, *outer, tile, *inner)),),
        (whole.with_shape((*outer, count, tile, *inner)),),
    )


def _reading(op: SpmdOp, ordered: dict[int, int]) -> SpmdOp:
    """The op with other operands."""
    if ordered.keys().isdisjoint(op.operands):
        return op
    if isinstance(op, Collective):
        after = ordered.get(op.after, op.after)
        return op._replace(operand=ordered.get(op.operand, op.operand), after=after)
    operands = tuple(ordered.get(v, v) for v in op.operands)
    if isinstance(op, Compute):
        return op._replace(operands=operands)
    return replace(op, operands=operands)
