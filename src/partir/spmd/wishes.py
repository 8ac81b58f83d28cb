"""What a schedule says of gathers: keep what was gathered, or gather it again."""

from __future__ import annotations

from partir.ir.core import Program
from partir.partition.state import Gathers
from partir.rules.nest import nest_of
from partir.rules.traits import changes_form


def base_of(program: Program, value: int) -> int:
    """The value that this one is another form of: converted, transposed, reshaped."""
    while (producer := program.producers.get(value)) is not None:
        op = program.ops[producer]
        if op.regions or not changes_form(nest_of(op.signature)):
            return value
        value = op.operands[0]
    return value


def wish_of(
    program: Program, gathers: Gathers, value: int, axes: tuple[str, ...]
) -> str | None:
    """What is said of gathering a value over these axes; None if nothing is."""
    if not gathers:
        return None
    said = {gathers.get((axis, base_of(program, value))) for axis in axes}
    return said.pop() if len(said) == 1 else None
