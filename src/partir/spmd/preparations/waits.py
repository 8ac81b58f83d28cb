"""What a `Wait` is, and where ops wait: products and loops, in every block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from partir.rules.traits import Role, role_of
from partir.spmd.program import Block, Compute, Control, SpmdOp, SpmdProgram


@dataclass(frozen=True, slots=True)
class Wait:
    """An op's operand, by position, that waits for values."""

    position: int
    values: tuple[int, ...]


def is_product(op: SpmdOp) -> TypeGuard[Compute]:
    """Whether it makes one value of several that are in memory."""
    if not isinstance(op, Compute) or len(op.results) != 1 or len(op.operands) < 2:
        return False
    return role_of(op.nest) is Role.OPAQUE


def is_loop(op: SpmdOp) -> bool:
    """Whether it has blocks that run more often than once."""
    return isinstance(op, Control) and bool(op.blocks) and op.trips != 1


def blocks_of(program: SpmdProgram, in_loops: bool) -> list[Block]:
    """The program's body, and the blocks of loops and branches if asked for."""
    blocks = [program.body]
    for op, _ in program.walk():
        blocks += op.blocks if isinstance(op, Control) and in_loops else ()
    return blocks
