"""Which values results are made of, inside loops and branches as well."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from partir.ir.core import Op, Program

_LOOP = "stablehlo.while"
_BRANCHES = ("stablehlo.case", "stablehlo.if")
Live = frozenset[int]


class LiveValues(NamedTuple):
    """Values that some are made of, and how many elements ops make of them."""

    values: Live
    elements: int  # a loop's count once


def live_values(
    program: Program, results: Sequence[int], most: int | None = None
) -> LiveValues | None:
    """All values that some are made of; what a loop carries, only if it is read.

    None if they have more elements than anybody would look at.
    """
    carriers = _carriers(program)
    found, left, ops = set[int](), [*results], set[int]()
    elements = 0
    while left:
        value = left.pop()
        if value in found:
            continue
        found.add(value)
        index = program.producers.get(value)
        if index is not None:
            op = program.ops[index]
            left += _read(op, op.results.index(value))
            if index not in ops:
                ops.add(index)
                elements += sum(math.prod(t.shape) for t in op.signature.results)
        elif value in carriers:
            left += _carried(*carriers[value])
        if most is not None and elements > most:
            return None
    return LiveValues(frozenset(found), elements)


def _carriers(program: Program) -> dict[int, tuple[Op, int]]:
    """Loops, by the arguments of their regions."""
    return {
        value: (op, number)
        for op in program.ops
        if op.kind == _LOOP
        for region in op.regions
        for number, value in enumerate(region.arguments)
    }


def _read(op: Op, number: int) -> Iterator[int]:
    """What an op reads for one of its results."""
    if op.kind == _LOOP:
        yield op.regions[0].results[0]
        yield from _carried(op, number)
        return
    yield from op.operands
    for region in op.regions:
        if op.kind in _BRANCHES:
            yield region.results[number]
        else:
            yield from region.results


def _carried(op: Op, number: int) -> Iterator[int]:
    """One of the values of a loop, before it, in it and behind it."""
    yield op.operands[number]
    yield op.regions[1].results[number]
    for region in op.regions:
        yield region.arguments[number]
