"""Constants that cost nothing, which the folded program leaves out."""

from __future__ import annotations

from partir.ir.core import Program
from partir.rules.nest import nest_of
from partir.rules.traits import Role, repeats, role_of


def free_constants(program: Program) -> set[int]:
    """Constants and what repeats them, where only fused ops of their level read them.

    Every op that reads them computes them itself, so they cost nothing.
    """
    top = set(program.body.ops)
    free: set[int] = set()
    pinned = {port.value for port in program.results}
    pinned |= {tag.value for tag in program.tags}
    for index in program.body.ops:
        op = program.ops[index]
        makers = [program.producers.get(v) for v in op.operands]
        if (
            not op.regions
            and repeats(nest_of(op.signature))
            and pinned.isdisjoint(op.results)
            and all(maker in free for maker in makers)
        ):
            free.add(index)
    changed = True
    while changed:  # what reads them must be fused, or left out itself
        costly = {i for i in free if not _fused_into_all(program, i, free, top)}
        free -= costly
        changed = bool(costly)
    return free


def _fused_into_all(
    program: Program, index: int, free: set[int], top: set[int]
) -> bool:
    (value,) = program.ops[index].results
    for reader in program.uses.get(value, ()):
        op = program.ops[reader]
        if reader not in top or op.regions:
            return False
        if reader not in free and role_of(nest_of(op.signature)) not in _FUSED:
            return False
    return value in program.uses


_FUSED = (Role.CHEAP, Role.COSTLY, Role.ROOT)
