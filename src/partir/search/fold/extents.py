"""Which repetitions are folded, and which of them stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from partir.ir.core import Program
from partir.search.fold.repeats import LEAST, Chain, Repeats

Extents = dict[int, tuple[int, int]]


def extents_of(program: Program, repeats: Repeats) -> Extents:
    """First and last repetition of each family: those of most of its chains.

    Families that feed a loop stay as they are if it carries each repetition apart.
    """
    votes: dict[int, Counter[tuple[int, int]]] = {}
    for chain in repeats.ops:
        votes.setdefault(chain.family, Counter())[(chain.first, chain.last)] += 1
    for family in _feeding_loops(program, repeats):
        votes.pop(family, None)
    return {family: own.most_common(1)[0][0] for family, own in votes.items()}


def _feeding_loops(program: Program, repeats: Repeats) -> set[int]:
    """Families with values that a loop carries apart from those of their kin."""
    members = {i for chain in repeats.ops for i in chain.members}
    together = {v for chain in repeats.arguments for v in chain.members}
    carried = {
        value
        for index, op in enumerate(program.ops)
        if op.regions and index not in members
        for position, value in enumerate(op.operands)
        if not any(
            region.arguments[position : position + 1]
            and region.arguments[position] in together
            for region in op.regions
        )
    }
    feeding = {
        chain.family for chain in repeats.arguments if carried & {*chain.members}
    }
    for chain in repeats.ops:
        if any(v in carried for i in chain.members for v in program.ops[i].results):
            feeding.add(chain.family)
    return feeding


def extent_of(chain: Chain, extents: Extents) -> tuple[int, int] | None:
    """Repetitions to fold: its family's, what lies outside stays; None if too few.

    A chain may be numbered one off, if it was found by way of a carried value.
    """
    first, last = extents.get(chain.family, (0, 0))
    if len(chain.members) == last - first + 1:
        first, last = chain.first, chain.last
    first, last = max(first, chain.first), min(last, chain.last)
    return (first, last) if last - first >= 2 else None


@dataclass(frozen=True, slots=True)
class FoldedChain:
    """The representative of a chain, the first to run, and those it stands for."""

    representative: int
    others: tuple[int, ...]  # in program order

    @classmethod
    def of(cls, members: Sequence[int]) -> FoldedChain:
        """The first represents all."""
        first, *others = sorted(members)
        return cls(first, tuple(others))


def folded_chains(
    chains: Iterable[Chain], extents: Extents, ends: Set[int]
) -> list[FoldedChain]:
    """Chains to fold; what one has beyond one of the `ends` is left out."""
    folded = []
    for chain in chains:
        if extent := extent_of(chain, extents):
            members = [chain.at(r) for r in range(extent[0], extent[1] + 1)]
            if not ends.isdisjoint(members):
                members = _within(sorted(members), ends)
            if len(members) >= LEAST:
                folded.append(FoldedChain.of(members))
    return folded


def _within(members: list[int], ends: Set[int]) -> list[int]:
    """The middle of a chain: from the last of the ends before it to the first behind.

    The former is the representative, the latter is left out.
    """
    half, start, stop = len(members) // 2, 0, len(members)
    for place, member in enumerate(members):
        if member in ends and place < half:
            start = place
        elif member in ends:
            stop = min(stop, place)
    return members[start:stop]
