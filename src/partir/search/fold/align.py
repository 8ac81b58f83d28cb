"""Chains cut to the repetitions that they have in common.

The first or the last repetition often lacks something: nobody needs the gradient of a
model's input. Its weights are then read less often than those of the others and can't
stand for them. Where a chain runs beside a longer one, the longer one gives up its
first or its last member, which is then a part of the program like any other. For the
sake of something small, such as the gradient of a bias, this is not done.
"""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.core import Program
from partir.search.fold.repeats import LEAST, Chain, Repeats

_LARGE = 1 / 64

Edge = tuple[int, int, int]  # a chain, another, how far the other is ahead


def aligned(program: Program, repeats: Repeats) -> Repeats:
    """The same chains, or parts of them."""
    chains = [*repeats.ops, *repeats.arguments]
    spans = [(0, len(chain.members)) for chain in chains]
    beside: dict[int, list[Edge]] = {}
    for one, other, ahead in _edges(program, repeats):
        beside.setdefault(one, []).append((one, other, ahead))
        beside.setdefault(other, []).append((other, one, -ahead))
    todo = _large(program, repeats)
    while todo:
        one = todo.pop()
        for _, other, ahead in beside.get(one, ()):
            start, stop = spans[one]
            shorter = _cut(
                spans[other], (start + ahead, stop + ahead), len(chains[other].members)
            )
            if shorter != spans[other]:
                spans[other] = shorter
                todo.append(other)
    cut = [
        Chain(chain.members[start:stop], chain.family, chain.first + start)
        for chain, (start, stop) in zip(chains, spans, strict=True)
    ]
    ops, arguments = cut[: len(repeats.ops)], cut[len(repeats.ops) :]
    twins = tuple(_twins(program, repeats, spans))
    return Repeats(_long(ops), _long(arguments), twins)


def _large(program: Program, repeats: Repeats) -> list[int]:
    """Chains of a size that matters: next to that of the largest argument."""
    types = program.types
    sizes = [
        sum(types[v].bytes for v in program.ops[chain.members[0]].results)
        for chain in repeats.ops
    ]
    arguments = [types[chain.members[0]].bytes for chain in repeats.arguments]
    least = max(arguments, default=0) * _LARGE
    return [n for n, size in enumerate(sizes + arguments) if size >= least]


def _twins(
    program: Program, repeats: Repeats, spans: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Values of members that were cut off, with those of a member that stays."""
    ops = len(repeats.ops)
    for number, chain in enumerate((*repeats.ops, *repeats.arguments)):
        start, stop = spans[number]
        stays = chain.members[start]
        for member in chain.members[:start] + chain.members[stop:]:
            if number < ops:
                results = (program.ops[op].results for op in (member, stays))
                yield from zip(*results, strict=True)
            else:
                yield member, stays


def _long(chains: list[Chain]) -> tuple[Chain, ...]:
    return tuple(chain for chain in chains if len(chain.members) >= LEAST)


def _cut(span: tuple[int, int], within: tuple[int, int], size: int) -> tuple[int, int]:
    """The span without its ends if they stand out; never more than one at each."""
    start, stop = within
    if start < span[0] or stop > span[1]:  # not beside it but across
        return span
    return max(span[0], min(start, 1)), min(span[1], max(stop, size - 1))


def _edges(program: Program, repeats: Repeats) -> Iterator[Edge]:
    """Chains of which one reads the other at a constant distance."""
    place: dict[int, tuple[int, int]] = {}
    for number, chain in enumerate(repeats.ops):
        for position, op in enumerate(chain.members):
            for value in program.ops[op].results:
                place[value] = number, position
    for number, chain in enumerate(repeats.arguments, len(repeats.ops)):
        for position, value in enumerate(chain.members):
            place[value] = number, position
    for number, chain in enumerate(repeats.ops):
        columns = zip(*(program.ops[op].operands for op in chain.members), strict=True)
        for column in columns:
            others = {
                (place[value][0], place[value][1] - position)
                for position, value in enumerate(column)
                if value in place
            }
            if len(others) == 1:
                ((other, ahead),) = others
                if other != number:
                    yield number, other, ahead
