"""Operands that count once in a reduction loop: identity in all other iterations."""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.identities import ONCE, cites
from partir.rules.local import INDEX, Emitter, Ssa, compared, constant, selected
from partir.rules.monoids import is_identity, neutral
from partir.rules.nest import Loop, Nest


@cites(ONCE)
def once_operands(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa], splats: Sequence[str | None]
) -> list[Ssa]:
    """Operands with those marked `once` masked, unless known to be the identity."""
    made = list(operands)
    for loop in nest.loops:
        for position in loop.factor.once:
            assert loop.factor.reduce is not None
            type_ = nest.signature.operands[position]
            if not is_identity(loop.factor.reduce, type_, splats[position]):
                made[position] = _masked(loop, emitter, made[position])
    return made


def _masked(loop: Loop, emitter: Emitter, operand: Ssa) -> Ssa:
    """`operand` in the first iteration, the identity in the others."""
    assert loop.factor.reduce is not None
    zero = constant(emitter, INDEX, "0")
    first = compared(emitter, emitter.index(loop.axis), "EQ", zero)
    other = constant(emitter, operand.type, neutral(loop.factor.reduce, operand.type))
    return selected(emitter, first, operand, other)
