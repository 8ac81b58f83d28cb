"""Scattered sums that are added to something: XLA scatters into that instead."""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.monoids import is_identity, monoid_of
from partir.spmd.program import Compute, SpmdOp
from partir.spmd.rewrites.sweep import Sweep


def scatter_into_sums(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Scatter into what the scattered sum is added to, which needs no zeros.

    rewrite:
        %1 = scatter sum zeros %i %u ; %2 = add %0 %1
        ->
        %2 = scatter sum %0 %i %u
    """
    sums: dict[int, int] = {}  # places of scatters into zeros, by what they make
    made: list[SpmdOp | None] = list(ops)
    for place, op in enumerate(ops):
        if not isinstance(op, Compute):
            continue
        if _is_sum_of_updates(sweep, op):
            sums[op.results[0]] = place
        elif op.nest.signature.kind == "stablehlo.add":
            first, second = op.operands
            if second not in sums:
                first, second = second, first
            before = sums.pop(second, -1)
            scatter = ops[before]
            if before >= 0 and isinstance(scatter, Compute):
                made[before] = None
                operands = (first, *scatter.operands[1:])
                made[place] = scatter._replace(operands=operands, results=op.results)
    kept = [op for op in made if op is not None]
    return kept if len(kept) < len(ops) else ops


def _is_sum_of_updates(sweep: Sweep, op: Compute) -> bool:
    """Whether it adds up updates, starting at zero, and is read only once."""
    signature = op.nest.signature
    if signature.kind != "stablehlo.scatter" or len(op.operands) != 3:
        return False
    start = op.operands[0]
    return (
        monoid_of(signature.lambdas[0]) == "sum"
        and is_identity("sum", sweep.types[start], sweep.splats.get(start))
        and sweep.reads[op.results[0]] == 1
    )
