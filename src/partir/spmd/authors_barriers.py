"""Optimization barriers that a program's author wrote, above all to recompute later.

A compiler that takes barriers out, as XLA does on CPUs, takes out all of them or none.
Where it is told to keep those that the exporter writes, and would else have taken the
author's out, these go first.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.identities import WAITING, cites
from partir.spmd.program import Control, SpmdOp, SpmdProgram
from partir.spmd.sweep import Sweep


def has_barriers(program: SpmdProgram) -> bool:
    """Whether the author wrote any."""
    return any(_is_barrier(op) for op, _ in program.walk())


@cites(WAITING)
def drop_barriers(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Take barriers out.

    rewrite:
        %1, %2 = optimization_barrier %x, %y ; f %1
        ->
        f %x
    """
    others = [op for op in ops if not _is_barrier(op)]
    if len(others) == len(ops):
        return ops
    for op in filter(_is_barrier, ops):
        for operand, result in zip(op.operands, op.results, strict=True):
            sweep.renamed[result] = sweep.renamed.get(operand, operand)
    return others


def _is_barrier(op: SpmdOp) -> bool:
    return isinstance(op, Control) and not op.blocks
