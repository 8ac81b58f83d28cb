"""What a scatter starts from is made when there is something to scatter.

A gradient of a table is scattered into zeros, as many as the table has. XLA on CPUs
runs what waits for nothing first, and would keep these from the start of the step.

Where the gradient is added to something at once, XLA scatters into that and makes no
zeros: nothing waits there, since a barrier would hide the zeros from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.types import tensor
from partir.rules.identities import WAITING, cites
from partir.rules.linear import linear
from partir.rules.local import Emitter, Ssa, constant, spread
from partir.rules.nest import Nest
from partir.rules.traits import Role, role_of
from partir.spmd.program import SpmdProgram


def late_starts(program: SpmdProgram) -> set[int]:
    """First results of the ops whose first operand is made late."""
    blocks, splats = program.blocks, program.splats
    found = {
        op.results[0]
        for block in blocks
        for op in block.computing(_writes).values()
        if op.operands[0] in splats and op.operands[-1] not in splats
    }
    if not found:
        return found
    added = [op for block in blocks for op in block.computing(_adds).values()]
    return found.difference(*(op.operands for op in added))


def _writes(nest: Nest) -> bool:
    """Whether an op writes its last operand into its first."""
    return role_of(nest) == Role.UPDATE and bool(nest.operand_types[-1].shape)


def _adds(nest: Nest) -> bool:
    """Whether an op adds two values."""
    two = len(nest.operand_types) == 2
    return two and linear(nest.signature, frozenset({0, 1}))


@cites(WAITING)
def start_late(
    emitter: Emitter, operands: Sequence[Ssa], splat: str | None
) -> list[Ssa]:
    """The same operands; the first is made when the last is there.

    Both are read through a barrier: one that hands on what nobody reads does not hold.
    """
    first, *others, last = operands
    assert splat is not None
    number = constant(emitter, tensor((), first.type.dtype), splat)
    kind, both = "stablehlo.optimization_barrier", (number, last)
    number, last = emitter.op(kind, both, [one.type for one in both])
    return [spread(emitter, number, first.type), *others, last]
