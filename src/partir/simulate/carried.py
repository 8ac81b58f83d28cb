"""What a call hands to the next one: results that succeed arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from partir.ir.core import Program
from partir.simulate.kernels.kernel import Kernels

Pair = tuple[int, int | None]


def carried_by_calls(
    source: Program, block: Kernels, handed: Collection[int] = ()
) -> tuple[Pair, ...]:
    """Arguments of a program's kernels, each with the result that succeeds it.

    Where nobody said which do, those that stand in the same place do. What repetitions
    of a folded program hand on (`handed`) is tied, too, and not meant.
    """
    said = tuple(_tied(source, block, handed))
    return said or tuple(zip(block.arguments, block.results, strict=False))


def _tied(source: Program, block: Kernels, handed: Collection[int]) -> Iterator[Pair]:
    given = dict(zip(source.body.arguments, block.arguments, strict=True))
    results = [port.value for port in source.results]
    made = dict(zip(results, block.results, strict=True))
    for tie in source.ties:
        (result, *_), (argument, *_) = tie.sources, tie.targets
        if tie.owner is not None or result in handed:
            continue
        if argument in given and result in made:
            yield given[argument], made[result]
