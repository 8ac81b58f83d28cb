"""Ops that nothing needs."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.core import Program, Region
from partir.rules.host import has_effects


def dead_ops(program: Program) -> set[int]:
    """Ops of the body whose results are read only by dead ops."""
    read = set(program.body.results)
    read.update(v for tie in program.ties for v in tie.sources)
    dead: set[int] = set()
    for index in reversed(program.body.ops):
        op = program.ops[index]
        effect = op.regions or has_effects(op.signature)
        if not effect and op.results and read.isdisjoint(op.results):
            dead.add(index)
            continue
        for number in (index, *(i for r in op.regions for i in program.walk(r))):
            read.update(program.ops[number].operands)
        for region in op.regions:
            read.update(_yielded(program, region))
    return dead


def _yielded(program: Program, region: Region) -> Iterator[int]:
    yield from region.results
    for index in region.ops:
        for inner in program.ops[index].regions:
            yield from _yielded(program, inner)
