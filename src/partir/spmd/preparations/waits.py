"""What a `Wait` is, and where ops wait: products and loops, in every block."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from partir.rules.nest import Nest
from partir.rules.traits import Role, role_of
from partir.spmd.program import Block, Compute, Control, SpmdOp


@dataclass(frozen=True, slots=True)
class Wait:
    """An op's operand, by position, that waits for values."""

    position: int
    values: tuple[int, ...]


def is_product(op: SpmdOp) -> TypeGuard[Compute]:
    """Whether it makes one value of several that are in memory."""
    return type(op) is Compute and _is_of_two(op) and is_opaque(op.nest)


def products_in(block: Block) -> dict[int, Compute]:
    """Those of a block, by place."""
    found = block.computing(is_opaque)
    return {place: op for place, op in found.items() if _is_of_two(op)}


def _is_of_two(op: Compute) -> bool:
    return len(op.operands) > 1 and len(op.results) == 1


def is_opaque(nest: Nest) -> bool:
    """Whether it reads and writes memory: nothing is computed with it on the side."""
    return role_of(nest) is Role.OPAQUE


def is_loop(op: SpmdOp) -> bool:
    """Whether it has blocks that run more often than once."""
    return isinstance(op, Control) and bool(op.blocks) and op.trips != 1


def first_reached(
    ops: Sequence[SpmdOp], reads: Sequence[Sequence[int]], stops: Collection[int]
) -> dict[int, int]:
    """By value, the first of these ops, by place, that needs it; found from behind."""
    found: dict[int, int] = {}
    for place in range(max(stops, default=-1), -1, -1):
        if place in stops:
            first = place
        else:
            reached = [found[v] for v in ops[place].results if v in found]
            if not reached:
                continue
            first = min(reached)
        for value in reads[place]:
            if found.get(value, first) >= first:
                found[value] = first
    return found
