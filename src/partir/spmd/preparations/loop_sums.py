"""Sums of what a loop writes into a stack: in the loop, a slice at a time.

Such sums are delayed until the loop is over, where one collective does them all. That
takes the memory of a second stack, for as many bytes sent; where a compiler combines
sums by itself, calls saved are worth less than memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from partir.rules.bounds import Bounds
from partir.rules.identities import ACCUMULATED, cites
from partir.rules.linear import adds_up
from partir.rules.monoids import is_identity
from partir.spmd.program import Block, Collective, Compute, Control, SpmdOp
from partir.spmd.rewrites.sweep import Sweep


@cites(ACCUMULATED)
def sum_inside_loops(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Sum slices before a loop writes them into zeros, instead of all that it wrote.

    rewrite:
        %1 = while (%zeros) { %3 = update %a %u ; return %3 } ; %2 = all_reduce {B} %1
        ->
        %2 = while (%zeros) { %4 = all_reduce {B} %u ; %3 = update %a %4 ; return %3 }
    """
    sums = {
        op.operand: op
        for op in sweep.block.moves
        if op.kind == "all_reduce" and op.monoid == "sum" and op.after < 0
    }
    made: list[SpmdOp] = []
    for op in ops:
        if isinstance(op, Control) and not sums.keys().isdisjoint(op.results):
            op = _summing(sweep, op, sums)
        if not (isinstance(op, Collective) and op.result in sweep.renamed):
            made.append(op)
    return made if len(made) < len(ops) else ops


def _summing(sweep: Sweep, loop: Control, sums: Mapping[int, Collective]) -> Control:
    """A loop that does the sums of its results by itself, where it can."""
    for number, value in enumerate(loop.results):
        if value not in sums or sweep.reads[value] != 1:
            continue
        body = _summed_body(sweep, loop, number, sums[value])
        if body is not None:
            loop = replace(loop, blocks=(loop.blocks[0], body))
            sweep.renamed[sums[value].result] = value
    return loop


def _summed_body(
    sweep: Sweep, loop: Control, number: int, total: Collective
) -> Block | None:
    """The body with a sum before what it writes into a carried value."""
    if not _is_only_written(sweep, loop, number):
        return None
    body = loop.blocks[1]
    carried, out = body.arguments[number], body.results[number]
    place, op = next(one for one in enumerate(body.ops) if out in one[1].results)
    position = _written(sweep, op, carried)
    if position is None or not isinstance(op, Compute):
        return None
    part = op.operands[position]
    if (loop.trips or 0) * sweep.types[part].bytes > sweep.types[total.operand].bytes:
        return None
    value = sweep.new(sweep.types[part])
    operands = list(op.operands)
    operands[position] = value
    summed = total._replace(operand=part, result=value)
    written = op._replace(operands=tuple(operands))
    ops = (*body.ops[:place], summed, written, *body.ops[place + 1 :])
    return replace(body, ops=ops)


def _is_only_written(sweep: Sweep, loop: Control, number: int) -> bool:
    """Whether a value starts from zeros and no iteration reads it but to write."""
    if len(loop.blocks) != 2 or not loop.trips:
        return False
    tested, body = loop.blocks
    start, out = loop.operands[number], body.results[number]
    if not is_identity("sum", sweep.types[start], sweep.splats.get(start)):
        return False
    made = any(out in op.results for op in body.ops)
    once = sweep.reads[body.arguments[number]] == 1 and sweep.reads[out] == 1
    return made and once and not sweep.reads[tested.arguments[number]]


def _written(sweep: Sweep, op: SpmdOp, carried: int) -> int | None:
    """The operand that is written into a carried value, both of which add up."""
    if not isinstance(op, Compute) or op.operands.count(carried) != 1:
        return None
    program, into = sweep.program.program, op.operands.index(carried)
    sources, bounds = program.ops[op.node].operands, Bounds.of(program)
    for position, value in enumerate(op.operands):
        both = frozenset((into, position))
        summed = len(both) == 2 and sweep.types[value].shape
        if summed and adds_up(op.nest.signature, sources, both, bounds):
            return position
    return None
