"""Moves that loops repeat: done once before the loop if what they make is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from partir.rules.identities import EQUAL, cites
from partir.spmd.program import Block, Collective, Control, SpmdOp
from partir.spmd.rewrites.sweep import Sweep
from partir.spmd.wishes import wish_of


@cites(EQUAL)
def hoist_kept_gathers(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Gather before a loop what all of its iterations would gather, if it is kept.

    Before a branch, too, which may stand in a loop.

    rewrite:
        while … { %1 = all_gather 0 {B} %w ; … }
        ->
        %1 = all_gather 0 {B} %w ; while … { … }
    """
    if not sweep.program.gathers:
        return ops
    made: list[SpmdOp] = []
    for op in ops:
        if isinstance(op, Control):
            split = [_split(sweep, block) for block in op.blocks]
            if any(moves for moves, _ in split):
                made += [move for moves, _ in split for move in moves]
                op = replace(op, blocks=tuple(block for _, block in split))
        made.append(op)
    return made if len(made) > len(ops) else ops


def _split(sweep: Sweep, block: Block) -> tuple[list[SpmdOp], Block]:
    """Moves of a block that can stand before it, and the block without them."""
    moves: list[SpmdOp] = []
    rest: list[SpmdOp] = []
    inside = set(block.arguments)
    for op in block.ops:
        if inside.isdisjoint(op.operands) and _is_kept(sweep, op):
            moves.append(op)
        else:
            rest.append(op)
            inside.update(op.results)
    return moves, replace(block, ops=tuple(rest)) if moves else block


def _is_kept(sweep: Sweep, op: SpmdOp) -> bool:
    spmd = sweep.program
    return (
        isinstance(op, Collective)
        and op.kind == "all_gather"
        and wish_of(spmd.program, spmd.gathers, op.cause.value, op.axes) == "keep"
    )
