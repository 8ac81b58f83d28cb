"""Values in the type in which products read them.

TPUs multiply float32 numbers as bfloat16 unless a precision is asked for. What nothing
but products read is then stored, and gathered, as bfloat16.
"""

from __future__ import annotations

from dataclasses import replace

from partir.ir.types import tensor
from partir.rules.traits import Role, changes_form, role_of, takes_part
from partir.simulate.kernels.work import work_of
from partir.spmd.program import Block, Collective, Compute, Control, SpmdOp, SpmdProgram

WIDE, NARROW = "f32", "bf16"
_MOVES = frozenset(("all_gather", "all_to_all", "all_slice", "collective_permute"))


def narrowed(program: SpmdProgram) -> SpmdProgram:
    """The program with types as they are stored."""
    wide: set[int] = {*program.body.arguments, *program.body.results}
    before = 0
    while len(wide) > before:  # what a loop carries is known when its body is
        before = len(wide)
        _find_wide(program.body, wide)
    types = tuple(
        tensor(type_.shape, NARROW)
        if type_.tensor and type_.dtype == WIDE and value not in wide
        else type_
        for value, type_ in enumerate(program.types)
    )
    return replace(program, types=types)


def _find_wide(block: Block, wide: set[int]) -> None:
    """Add values that something else than a product reads."""
    for op in reversed(block.ops):
        if isinstance(op, Control):
            _find_carried(op, wide)
        elif isinstance(op, Compute) and role_of(op.nest) is Role.UPDATE:
            _alike((op.operands[0], op.results[0]), wide)
            if op.results[0] in wide:
                wide.update(op.operands)
        elif not is_product(op) and not (passes(op) and op.results[0] not in wide):
            wide.update(op.operands)


def _find_carried(op: Control, wide: set[int]) -> None:
    """A loop's values are as wide before it, in it and behind it."""
    *others, body = op.blocks or (None,)
    if body is None or len(others) != 1 or len(op.operands) != len(body.arguments):
        wide.update(op.operands, op.results)
        for block in op.blocks:
            wide.update(block.arguments, block.results)
    else:
        lists = op.operands, op.results, body.arguments, body.results
        tests = others[0].arguments
        wide.update(others[0].results)
        for group in zip(*lists, tests, strict=True):
            _alike(group, wide)
    for block in op.blocks:
        _find_wide(block, wide)


def _alike(values: tuple[int, ...], wide: set[int]) -> None:
    if not wide.isdisjoint(values):
        wide.update(values)


def is_product(op: SpmdOp) -> bool:
    """One that asks for no precision."""
    if not isinstance(op, Compute) or work_of(op.nest).matmul is None:
        return False
    return "HIGH" not in op.nest.signature.attrs.get("precision_config", "")


def passes(op: SpmdOp) -> bool:
    """Whether it hands on what it reads, in another place or shape."""
    if isinstance(op, Collective):
        return op.kind in _MOVES
    return isinstance(op, Compute) and (changes_form(op.nest) or takes_part(op.nest))
