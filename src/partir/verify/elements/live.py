"""Which values results are made of, inside loops and branches as well."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from partir.ir.core import Op, Program

_LOOP = "stablehlo.while"
_BRANCHES = ("stablehlo.case", "stablehlo.if")
Live = frozenset[int]


def live_values(program: Program, results: Sequence[int]) -> Live:
    """All values that some are made of; what a loop carries, only if it is read."""
    makers, carriers = _makers(program), _carriers(program)
    found, left = set[int](), [*results]
    while left:
        value = left.pop()
        if value in found:
            continue
        found.add(value)
        if value in makers:
            op = makers[value]
            left += _read(op, op.results.index(value))
        elif value in carriers:
            left += _carried(*carriers[value])
    return frozenset(found)


def elements_of(program: Program, live: Live) -> int:
    """Of all results of ops that are live; a loop's count once."""
    return sum(
        math.prod(type_.shape)
        for op in program.ops
        if not live.isdisjoint(op.results)
        for type_ in op.signature.results
    )


def _makers(program: Program) -> dict[int, Op]:
    return {value: op for op in program.ops for value in op.results}


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
