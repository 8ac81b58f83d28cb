"""What a schedule says of gathers: keep what was gathered, or gather it again."""

from __future__ import annotations

from collections.abc import Mapping

from partir.ir.core import Program
from partir.ir.trips import trip_count
from partir.partition.state import REST, Gathers
from partir.rules.nest import nest_of
from partir.rules.traits import changes_form, takes_part


def base_of(program: Program, value: int) -> int:
    """The value that this one is another form of, or a part.

    Converted, transposed, reshaped; one layer of a stack.
    """
    while (producer := program.producers.get(value)) is not None:
        op = program.ops[producer]
        nest = nest_of(op.signature)
        if op.regions or not (changes_form(nest) or takes_part(nest)):
            return value
        value = op.operands[0]
    return value


def wish_of(
    program: Program, gathers: Gathers, value: int, axes: tuple[str, ...]
) -> str | None:
    """What is said of gathering a value over these axes; None if nothing is.

    Nothing is said of what is gathered though it may rest.
    """
    if not gathers:
        return None
    said = {gathers.get((axis, base_of(program, value))) for axis in axes}
    wish = said.pop() if len(said) == 1 else None
    return None if wish == REST else wish


def is_looped(
    program: Program, owners: Mapping[int, int], value: int, base: int
) -> bool:
    """Whether a loop stands around a value and not around its base.

    What it repeats with the base can be done before it.
    """
    makers = program.producers
    around, end = owners.get(makers[value]), owners.get(makers.get(base, -1))
    while around is not None and around != end:
        if trip_count(program, around) != 1:
            return True
        around = owners.get(around)
    return False
