"""What is scattered is put in order first, if that makes the dimension a major one.

A gradient is often made transposed and scattered as it is made. Where a compiler
chooses how arrays lie, the dimension that was scattered then stays the minor one:
parameters and the optimiser's state are copied into that order, and back.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.identities import cites
from partir.rules.linear import kinds
from partir.spmd.program import Collective, Compute, SpmdOp
from partir.spmd.sums import Held, moved_past
from partir.spmd.sweep import Sweep, collectives_of


@cites(*dict.fromkeys(kinds().values()))
def scatter_major_dimensions(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Scatter behind the op that makes the scattered dimension a more major one.

    rewrite:
        %1 = reduce_scatter sum 1 {B} %0 ; %2 = transpose [1, 0] %1
        ->
        %1 = transpose [1, 0] %0 ; %2 = reduce_scatter sum 0 {B} %1
    """
    if not any(op.kind == "reduce_scatter" for op in collectives_of(ops)):
        return ops
    made: list[SpmdOp | None] = []
    held: dict[int, tuple[int, Held]] = {}
    for op in ops:
        place = len(made)
        made.append(op)
        one = Held.of(sweep, op, place)
        if one is not None and one.reduction.kind == "reduce_scatter":
            held[one.reduction.result] = place, one
        elif isinstance(op, Compute) and len(op.operands) == 1:
            before, one = held.get(op.operands[0], (-1, None))
            moved = one and _more_major(sweep, op, one)
            if moved:
                made[before], made[place] = None, moved[0]
                made.append(moved[1])
    return [op for op in made if op is not None] if len(made) > len(ops) else ops


def _more_major(
    sweep: Sweep, op: Compute, held: Held
) -> tuple[Compute, Collective] | None:
    """The op and the scatter in this order, if it is worth it."""
    moved, kept = moved_past(sweep, op, {0: held}), held.reduction.result
    if moved is None or moved[1].dim >= held.reduction.dim:
        return None
    compute, scatter, _ = moved
    sweep.types[kept] = sweep.types[scatter.result]
    sweep.renamed[scatter.result] = kept
    return compute, scatter._replace(result=kept)
