"""Values that are cut into pieces, and put together again.

In a program for CPUs the tiles that a device sends to others are cut by one kernel for
all of them, from places behind a barrier, and put together in their order. That is the
value that they were cut from.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from partir.ir.attributes import integer
from partir.ir.core import Op, Program, Region
from partir.verify.devices.bundles import JOIN, cut_place, is_hidden, stripped, without


def put_together(program: Program) -> Program:
    """The program without such cuts; the same if it has none.

    What an author cut in a shard_map is not hidden: it stays, as it does in the source.
    """
    if not any(one.kind == JOIN for one in {op.signature for op in program.ops}):
        return program
    found = {number: _whole(program, op) for number, op in enumerate(program.ops)}
    joins = {number: value for number, value in found.items() if value is not None}
    if not joins:
        return program
    wholes = {program.ops[n].results[0]: value for n, value in joins.items()}
    dead = {*joins, *_cuts_for(program, joins)}
    ops = tuple(without(_reading(op, wholes), dead) for op in program.ops)
    body = stripped(_giving(program.body, wholes), dead)
    return replace(program, ops=ops, body=body)


def _whole(program: Program, op: Op) -> int | None:
    """The value that all operands are pieces of, one behind the other."""
    if op.kind != JOIN:
        return None
    dim, end, cut_from = integer(op.signature.attrs["dimension"]), 0, set[int]()
    for value in op.operands:
        maker = program.producers.get(value)
        cut = None if maker is None else program.ops[maker]
        if cut is None or not is_hidden(program, cut, dim):
            return None
        start = end
        end += program.types[value].shape[dim]
        if cut_place(program, cut, dim) != (start, end):
            return None
        cut_from.add(cut.operands[0])
    whole = cut_from.pop()
    return None if cut_from or program.types[whole].shape[dim] != end else whole


def _cuts_for(program: Program, joins: dict[int, int]) -> set[int]:
    """Slices that nothing else reads."""
    regions = [program.body, *(r for op in program.ops for r in op.regions)]
    reads = Counter(v for op in program.ops for v in op.operands)
    reads.update(v for region in regions for v in region.results)
    reads.subtract(v for number in joins for v in program.ops[number].operands)
    pieces = {v for number in joins for v in program.ops[number].operands}
    return {program.producers[v] for v in pieces if not reads[v]}


def _reading(op: Op, wholes: dict[int, int]) -> Op:
    operands = tuple(_found(wholes, v) for v in op.operands)
    regions = tuple(_giving(region, wholes) for region in op.regions)
    return op._replace(operands=operands, regions=regions)


def _giving(region: Region, wholes: dict[int, int]) -> Region:
    results = tuple(_found(wholes, v) for v in region.results)
    return Region(region.arguments, region.ops, results)


def _found(wholes: dict[int, int], value: int) -> int:
    """What stands for a value: a whole may itself be put together."""
    while value in wholes:
        value = wholes[value]
    return value
