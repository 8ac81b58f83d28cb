"""Optimization barriers that a program's author wrote, above all to recompute later.

A compiler that takes barriers out, as XLA does on CPUs, takes out all of them or none.
Where it is told to keep those that the exporter writes, and would else have taken the
author's out, these go first.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.identities import WAITING, cites
from partir.spmd.program import SpmdOp, is_barrier, is_written
from partir.spmd.rewrites.sweep import Sweep


@cites(WAITING)
def drop_barriers(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Take barriers out.

    rewrite:
        %1, %2 = optimization_barrier %x, %y ; f %1
        ->
        f %x
    """
    others = list[SpmdOp]()
    for op in ops:
        if not is_barrier(op) or not is_written(sweep.program, op):
            others.append(op)
            continue
        for operand, result in zip(op.operands, op.results, strict=True):
            sweep.renamed[result] = sweep.renamed.get(operand, operand)
    return others if len(others) < len(ops) else ops
