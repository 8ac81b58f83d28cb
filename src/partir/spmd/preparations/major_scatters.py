"""What is scattered is put in order first, if that makes the dimension a major one.

What is reduced is, too, for compilers that would copy all around it otherwise.

A gradient is often made transposed and scattered as it is made. Where a compiler
chooses how arrays lie, the dimension that was scattered then stays the minor one:
parameters and the optimiser's state are copied into that order, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partir.rules.identities import cites
from partir.rules.linear import kinds
from partir.spmd.program import Collective, Compute, SpmdOp
from partir.spmd.rewrites.sums import Held, moved_past
from partir.spmd.rewrites.sweep import Sweep

# An op, the reduction that it reads, and the one that could stand behind it.
IsWorth = Callable[[Compute, Collective, Collective], bool]


@cites(*dict.fromkeys(kinds().values()))
def scatter_major_dimensions(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Scatter behind the op that makes the scattered dimension a more major one.

    rewrite:
        %1 = reduce_scatter sum 1 {B} %0 ; %2 = transpose [1, 0] %1
        ->
        %1 = transpose [1, 0] %0 ; %2 = reduce_scatter sum 0 {B} %1
    """
    return _behind(sweep, ops, "reduce_scatter", _is_more_major)


@cites(*dict.fromkeys(kinds().values()))
def order_before_sums(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Reduce behind the transpose of what is reduced.

    Compilers merge all-reduces: what one of them reduces then lies as it was made.

    rewrite:
        %1 = all_reduce sum {B} %0 ; %2 = transpose [1, 0] %1
        ->
        %1 = transpose [1, 0] %0 ; %2 = all_reduce sum {B} %1
    """
    return _behind(sweep, ops, "all_reduce", _is_transposed)


def _is_more_major(op: Compute, before: Collective, behind: Collective) -> bool:
    return behind.dim < before.dim


def _is_transposed(op: Compute, before: Collective, behind: Collective) -> bool:
    return op.nest.signature.kind == "stablehlo.transpose"


def _behind(
    sweep: Sweep, ops: Sequence[SpmdOp], kind: str, is_worth: IsWorth
) -> Sequence[SpmdOp]:
    """Reductions of a kind behind the one op that reads them, where it is worth it."""
    if not any(op.kind == kind for op in sweep.block.moves):
        return ops
    made: list[SpmdOp | None] = []
    held: dict[int, tuple[int, Held]] = {}
    for op in ops:
        place = len(made)
        made.append(op)
        if type(op) is Compute:
            if held.keys().isdisjoint(op.operands) or len(op.operands) != 1:
                continue
            before, one = held[op.operands[0]]
            moved = _moved(sweep, op, one, is_worth)
            if moved:
                made[before], made[place] = None, moved[0]
                made.append(moved[1])
        elif type(op) is Collective and op.kind == kind:
            found = Held.of(sweep, op, place)
            if found is not None:
                held[op.result] = place, found
    return [op for op in made if op is not None] if len(made) > len(ops) else ops


def _moved(
    sweep: Sweep, op: Compute, held: Held, is_worth: IsWorth
) -> tuple[Compute, Collective] | None:
    """The op and the reduction in this order, if it is worth it."""
    moved, kept = moved_past(sweep, op, {0: held}), held.reduction.result
    if moved is None or not is_worth(op, held.reduction, moved[1]):
        return None
    compute, reduction, _ = moved
    sweep.types[kept] = sweep.types[reduction.result]
    sweep.renamed[reduction.result] = kept
    return compute, reduction._replace(result=kept)
