"""Loops for ops that propagation leaves, by what is known around them."""

from __future__ import annotations

from collections.abc import Iterator

from partir.rules.factor import Factor
from partir.rules.nest import NO_SINGLE_FACTOR, WHOLE, Homes, Nest, Verdict


def followed(nest: Nest, size: int, known: Homes) -> Verdict:
    """The loop of an op that was left, by what is known around it."""
    cached: dict[tuple[int, Homes], Verdict] = nest.cache.setdefault("followed", {})
    found = cached.get((size, known))
    if found is None:
        candidates = (*_contested(nest, size, known), *_detours(nest, size, known))
        found = cached[size, known] = next(iter(candidates), NO_SINGLE_FACTOR)
    return found


def _contested(nest: Nest, size: int, known: Homes) -> list[int]:
    """Factors that operands ask for, the first one's first.

    Before them, those that leave results in tiles: what they make need not be added up.
    """
    asked = [
        number
        for position, home in enumerate(known[: len(nest.signature.operands)])
        for number, factor in enumerate(nest.factors)
        if home >= 0 and factor.operands[position] == home
        if factor.fits(size) and _leaves_whole(factor, known)
    ]
    return sorted(asked, key=lambda number: not _tiles_results(nest.factors[number]))


def _detours(nest: Nest, size: int, known: Homes) -> list[int]:
    """Factors along every operand that is tiled, be it on another dimension.

    So an op that needs its dimension whole (a sort, an fft) is tiled along another one:
    operands change over by an all_to_all, which moves less than a gather. Those that
    leave results where they are wanted come first: results need not change over too.
    """
    wanted = known[len(nest.signature.operands) :]

    def elsewhere(number: int) -> int:
        made = zip(nest.factors[number].results, wanted, strict=True)
        return sum(home >= 0 and dim != home for dim, home in made)

    return sorted(_along_operands(nest, size, known), key=elsewhere)


def _along_operands(nest: Nest, size: int, known: Homes) -> Iterator[int]:
    count = len(nest.signature.operands)
    tiled = [position for position in range(count) if known[position] >= 0]
    if not tiled:
        return
    for number, factor in enumerate(nest.factors):
        along = all(factor.operands[position] is not None for position in tiled)
        exact = factor.size % size == 0 and factor.fits(size)
        if along and exact and _tiles_results(factor) and _leaves_whole(factor, known):
            yield number


def _leaves_whole(factor: Factor, known: Homes) -> bool:
    """Whether it does not touch what was asked to stay whole."""
    homes = enumerate(known)
    return all(factor.dim(at) is None for at, home in homes if home == WHOLE)


def _tiles_results(factor: Factor) -> bool:
    return factor.reduce is None and None not in factor.results
