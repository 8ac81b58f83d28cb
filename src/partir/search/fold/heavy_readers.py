"""What reads a value: elementwise ops only, or something that takes time."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.core import Program
from partir.rules.nest import nest_of
from partir.rules.traits import changes_form, is_light


def heavy_reads(program: Program, value: int) -> Iterator[int]:
    """Positions at which heavy ops read a value, in whatever form."""
    for reader in program.uses.get(value, ()):
        op = program.ops[reader]
        nest = nest_of(op.signature)
        if changes_form(nest):
            for result in op.results:
                yield from heavy_reads(program, result)
        elif not is_light(nest):
            yield op.operands.index(value)
