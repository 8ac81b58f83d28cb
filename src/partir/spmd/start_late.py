"""What a scatter starts from is made when there is something to scatter.

A gradient of a table is scattered into zeros, as many as the table has. XLA on CPUs
runs what waits for nothing first, and would keep these from the start of the step.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.types import tensor
from partir.rules.identities import WAITING, cites
from partir.rules.local import Emitter, Ssa, constant, spread
from partir.rules.nest import Nest
from partir.rules.traits import Role, role_of


def starts_from_splat(nest: Nest, splats: Sequence[str | None]) -> bool:
    """Whether an op writes its last operand, computed, into one number, repeated."""
    writes = role_of(nest) == Role.UPDATE and bool(nest.operand_types[-1].shape)
    return writes and splats[0] is not None and splats[-1] is None


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
