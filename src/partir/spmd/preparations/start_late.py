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
from partir.spmd.program import Compute, SpmdProgram


def late_starts(program: SpmdProgram) -> set[int]:
    """First results of the ops whose first operand is made late."""
    found: set[int] = set()
    added: set[int] = set()
    for op, _ in program.walk():
        if isinstance(op, Compute):
            added.update(_added(op))
            if _starts_from_splat(
                op.nest, [program.splats.get(v) for v in op.operands]
            ):
                found.add(op.results[0])
    return found - added


def _starts_from_splat(nest: Nest, splats: Sequence[str | None]) -> bool:
    """Whether an op writes its last operand, computed, into one number, repeated."""
    writes = role_of(nest) == Role.UPDATE and bool(nest.operand_types[-1].shape)
    return writes and splats[0] is not None and splats[-1] is None


def _added(op: Compute) -> tuple[int, ...]:
    """The two values that an op adds, if that is what it does."""
    two = len(op.operands) == 2
    both = two and linear(op.nest.signature, frozenset({0, 1}))
    return op.operands if both else ()


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
