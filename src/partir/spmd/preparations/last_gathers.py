"""What is gathered last of a parameter is used before the parameter is replaced.

A parameter of ZeRO-3 is gathered for the last time on the way back, and its new value
is written over it. XLA on CPUs has all gathers of it run before that. Where it minds
memory it works off one result after the other, and comes to a new parameter long before
the product that its last gather is for: what was gathered is in memory meanwhile. So
the new value waits for the product.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.identities import WAITING, cites
from partir.rules.traits import Role, role_of
from partir.spmd.preparations.weight_sizes import gathers_most
from partir.spmd.program import Collective, Compute, Control, SpmdOp
from partir.spmd.rewrites.sweep import Sweep, reading, reads_of


@cites(WAITING)
def use_before_replacing(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Hand an argument on to who reads it later when what is gathered of it was used.

    rewrite:
        %1 = all_gather 0 {B} %w ; %2 = dot %g %1 ; … ; %3 = subtract %w %u
        ->
        %1 = all_gather 0 {B} %w ; %2 = dot %g %1 ; %4, %5 = barrier %w, %2 ; …
        ; %3 = subtract %4 %u, with %5 for %2
    """
    if sweep.block is not sweep.program.body or not gathers_most(sweep.program):
        return ops
    used = _used(sweep, ops)
    if not used:
        return ops
    made: list[SpmdOp] = []
    names: dict[int, int] = {}
    for op in ops:
        op = reading(op, names)
        made.append(op)
        argument = used.get(op.results[0]) if op.results else None
        if argument is not None and isinstance(op, Compute):
            both = argument, op.results[0]
            new = tuple(sweep.new(sweep.types[value]) for value in both)
            names.update(zip(both, new, strict=True))
            made.append(Control(op.node, both, new))
    return made


def _used(sweep: Sweep, ops: Sequence[SpmdOp]) -> dict[int, int]:
    """Products with what is gathered last of arguments that are read later still."""
    arguments = set(sweep.block.arguments)
    gathered = {
        op.operand: op.result
        for op in sweep.block.moves
        if op.kind == "all_gather" and op.operand in arguments
    }
    whole = {result: argument for argument, result in gathered.items()}
    used: dict[int, int] = {}
    waiting: dict[int, int] = {}
    for op in ops:
        if not isinstance(op, Collective):
            for value in reads_of(op):
                if value in waiting:
                    used[waiting.pop(value)] = value
        if not isinstance(op, Compute) or whole.keys().isdisjoint(op.operands):
            continue
        argument = next(whole.pop(v) for v in op.operands if v in whole)
        if role_of(op.nest) is Role.VIEW:
            whole[op.results[0]] = argument
        elif role_of(op.nest) is Role.OPAQUE and argument not in used.values():
            waiting[argument] = op.results[0]
    return used
