"""Smaller programs out of a program: the edits that shrinking tries.

Every op is labelled by its number, as the function that it comes from, so that its
address (``%v17/add/0``) stays when others go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from partir.fuzz.tags import tags_written
from partir.ir.core import Op, Port, Program, Region
from partir.ir.source import Location
from partir.mesh import Mesh
from partir.partition.graph import Graph
from partir.partition.state import State
from partir.spmd.stablehlo.sequential import sequential_text


def source_text(program: Program) -> str:
    """A program as StableHLO, nothing split, with its tags."""
    return sequential_text(State(Graph(tags_written(program)), Mesh({"one": 1})))


def labelled(program: Program) -> Program:
    """The same, every op with an address of its own."""
    ops = [
        op._replace(location=Location(f"v{number}", "program", number, "fuzz"))
        for number, op in enumerate(program.ops)
    ]
    return replace(program, ops=tuple(ops))


def unlabelled(program: Program, kept: Collection[str]) -> Program:
    """The same without labels but these."""
    ops = [
        op if op.location.function in kept else op._replace(location=Location())
        for op in program.ops
    ]
    return replace(program, ops=tuple(ops))


@dataclass(frozen=True)
class Edit:
    """What to change: results that stay, values that become arguments or others."""

    results: tuple[int, ...] | None = None  # positions
    tagged: bool = True  # whether tags stay
    cut: frozenset[int] = frozenset()  # values
    swap: Mapping[int, int] = field(default_factory=dict)  # value -> value before it


def edits(program: Program) -> Iterator[Edit]:
    """Edits to try, those that leave least first."""
    if program.tags:
        yield Edit(tagged=False)
    count = len(program.results)
    if count > 1:
        yield from (Edit(results=(n,)) for n in range(count))
        for n in range(count):
            yield Edit(results=tuple(m for m in range(count) if m != n))
    top = set(program.body.ops)
    for number in reversed(range(len(program.ops))):
        op = program.ops[number]
        if number in top and op.operands:
            yield Edit(cut=frozenset(op.results))
        if number in top or not _counts(program, op):
            yield from _bypasses(program, op)


def _counts(program: Program, op: Op) -> bool:
    """Whether it may be what ends a loop: that must stay."""
    types = [program.types[v] for v in op.results]
    return any(not t.shape and not t.dtype.startswith("f") for t in types)


def _bypasses(program: Program, op: Op) -> Iterator[Edit]:
    if len(op.results) != 1:
        return
    wanted = program.types[op.results[0]]
    for value in dict.fromkeys(op.operands):
        if program.types[value] == wanted:
            yield Edit(swap={op.results[0]: value})


def edited(program: Program, edit: Edit) -> Program:
    """The program after an edit, without what nothing reads any more.

    New arguments come last; arguments that nothing reads stay.
    """
    keep = range(len(program.results)) if edit.results is None else edit.results
    ports = [program.results[n] for n in keep]
    results = [
        replace(port, value=edit.swap.get(port.value, port.value)) for port in ports
    ]
    ops = tuple(_swapped(op, edit.swap) for op in program.ops)
    body = replace(
        program.body,
        arguments=(*program.body.arguments, *sorted(edit.cut)),
        results=tuple(port.value for port in results),
    )
    live = _live(ops, body, edit.cut)
    body = replace(body, ops=tuple(n for n in body.ops if n in live))
    made = _compact(replace(program, ops=ops, body=body, results=_named(results)))
    there = values_of(made)
    return replace(
        made,
        arguments=tuple(_port(made, v, n) for n, v in enumerate(body.arguments)),
        tags=tuple(t for t in program.tags if edit.tagged and t.value in there),
    )


def values_of(program: Program) -> set[int]:
    """Values that there are: made by an op, or arguments, of regions too."""
    found = set(program.body.arguments)
    for number in program.walk():
        op = program.ops[number]
        found.update(op.results, *(region.arguments for region in op.regions))
    return found


def _compact(program: Program) -> Program:
    """Without ops that stand nowhere."""
    numbers = {old: new for new, old in enumerate(sorted(program.walk()))}

    def region(old: Region) -> Region:
        return replace(old, ops=tuple(numbers[n] for n in old.ops))

    ops = tuple(
        op._replace(regions=tuple(map(region, op.regions)))
        for op in (program.ops[n] for n in numbers)
    )
    ties = tuple(
        replace(tie, owner=numbers[tie.owner])
        for tie in program.ties
        if tie.owner in numbers
    )
    return replace(program, ops=ops, body=region(program.body), ties=ties)


def without_arguments(program: Program, dropped: frozenset[int]) -> Program:
    """Without arguments that nothing reads, by value."""
    kept = tuple(v for v in program.body.arguments if v not in dropped)
    return replace(
        program,
        body=replace(program.body, arguments=kept),
        arguments=tuple(_port(program, v, n) for n, v in enumerate(kept)),
    )


def unread(program: Program) -> frozenset[int]:
    """Arguments that nothing reads."""
    read = set(program.body.results)
    for number in program.walk():
        op = program.ops[number]
        read.update(op.operands, *(region.results for region in op.regions))
    return frozenset(v for v in program.body.arguments if v not in read)


def _port(program: Program, value: int, number: int) -> Port:
    return Port(f"arg{number}", value, len(program.types[value].shape))


def _named(results: list[Port]) -> tuple[Port, ...]:
    if len(results) == 1:
        return (replace(results[0], name="out"),)
    return tuple(replace(port, name=f"out/{n}") for n, port in enumerate(results))


def _swapped(op: Op, swap: Mapping[int, int]) -> Op:
    if not swap:
        return op
    regions = tuple(
        replace(region, results=tuple(swap.get(v, v) for v in region.results))
        for region in op.regions
    )
    return op._replace(
        operands=tuple(swap.get(v, v) for v in op.operands), regions=regions
    )


def _live(ops: tuple[Op, ...], body: Region, cut: frozenset[int]) -> set[int]:
    """Top-level ops that results need, values that are cut being given."""
    producers = {v: n for n in body.ops for v in ops[n].results}
    found: set[int] = set()
    todo = list(body.results)
    while todo:
        value = todo.pop()
        number = producers.get(value)
        if value in cut or number is None or number in found:
            continue
        found.add(number)
        todo += _reads(ops, number)
    return found


def _reads(ops: tuple[Op, ...], number: int) -> list[int]:
    """Values that an op reads, those that its regions capture included."""
    op = ops[number]
    read = list(op.operands)
    for region in op.regions:
        read += region.results
        for inner in region.ops:
            read += _reads(ops, inner)
    return read
