"""Ops that compute the same from the same: compilers keep the first of them."""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.nest import Nest
from partir.rules.traits import Role, role_of
from partir.spmd.program import Compute, SpmdOp
from partir.spmd.rewrites.sweep import Sweep


def merge_equal(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Leave out what a block has computed before, but for what is written into.

    rewrite:
        %1 = mul %0 %0 ; %2 = mul %0 %0 ; %3 = add %1 %2
        ->
        %1 = mul %0 %0 ; %3 = add %1 %1
    """
    known: dict[tuple[Nest, tuple[int, ...]], tuple[int, ...]] = {}
    kept: list[SpmdOp] = []
    updated = {op.operands[0] for op in ops if _is_update(op)}
    for op in ops:
        if isinstance(op, Compute) and updated.isdisjoint(op.results):
            operands = tuple([sweep.renamed.get(v, v) for v in op.operands])
            first = known.setdefault((op.nest, operands), op.results)
            if first is not op.results:
                sweep.renamed.update(zip(op.results, first, strict=True))
                continue
        kept.append(op)
    return kept if len(kept) < len(ops) else ops


def _is_update(op: SpmdOp) -> bool:
    return isinstance(op, Compute) and role_of(op.nest) is Role.UPDATE
