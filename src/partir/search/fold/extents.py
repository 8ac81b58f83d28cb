"""Which repetitions are folded, and which of them stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from partir.ir.core import Program
from partir.search.fold.repeats import LEAST, Chain, Repeats

Spans = dict[int, tuple[int, int]]


def spans_of(program: Program, repeats: Repeats) -> Spans:
    """First and last repetition of each family: those of most of its chains.

    Families that feed a loop stay as they are if it carries each repetition apart.
    """
    votes: dict[int, Counter[tuple[int, int]]] = {}
    for chain in repeats.ops:
        found = votes.setdefault(chain.family, Counter())
        found[(chain.first, chain.last)] += 1
    for family in _feeding_loops(program, repeats):
        votes.pop(family, None)
    return {family: found.most_common(1)[0][0] for family, found in votes.items()}


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


def span_of(chain: Chain, spans: Spans) -> tuple[int, int] | None:
    """Repetitions to fold: its family's, what lies outside stays; None if too few.

    A chain may be numbered one off, if it was found by way of a carried value.
    """
    first, last = spans.get(chain.family, (0, 0))
    if len(chain.members) == last - first + 1:
        first, last = chain.first, chain.last
    first, last = max(first, chain.first), min(last, chain.last)
    return (first, last) if last - first >= 2 else None


@dataclass(frozen=True, slots=True)
class Fold:
    """The member of a chain that is kept, the first to run, and those it stands for."""

    kept: int
    rest: tuple[int, ...]  # in program order

    @classmethod
    def of(cls, members: Sequence[int]) -> Fold:
        """Keep the first."""
        first, *rest = sorted(members)
        return cls(first, tuple(rest))


def folds_of(chains: Iterable[Chain], spans: Spans, ends: Set[int]) -> list[Fold]:
    """Chains to fold; what one has beyond one of the `ends` is left out."""
    found = []
    for chain in chains:
        if span := span_of(chain, spans):
            members = [chain.at(r) for r in range(span[0], span[1] + 1)]
            if not ends.isdisjoint(members):
                members = _within(sorted(members), ends)
            if len(members) >= LEAST:
                found.append(Fold.of(members))
    return found


def _within(members: list[int], ends: Set[int]) -> list[int]:
    """The middle of a chain: from the last of the ends before it to the first behind.

    The former is the one that is kept, the latter is left out.
    """
    half, start, stop = len(members) // 2, 0, len(members)
    for place, member in enumerate(members):
        if member in ends and place < half:
            start = place
        elif member in ends:
            stop = min(stop, place)
    return members[start:stop]
