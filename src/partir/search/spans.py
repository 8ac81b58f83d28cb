"""Which repetitions are folded, and which of them stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from partir.ir.core import Program
from partir.search.repeats import LEAST, Chain, Repeats

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
    """The members of a chain that are kept, the one that counts for the rest, these."""

    kept: tuple[int, ...]  # in program order
    counted: int
    rest: tuple[int, ...]

    @classmethod
    def of(cls, members: Sequence[int]) -> Fold:
        """Keep the ends; the later one reads what others of its kind have made."""
        first, *rest, last = members
        kept = tuple(sorted((first, last)))
        return cls(kept, kept[-1], tuple(rest))


def folds_of(
    program: Program, chains: Iterable[Chain], spans: Spans, ends: Set[int]
) -> list[Fold]:
    """Chains to fold: wherever one is read that goes, one that stays is there.

    What a chain has beyond one of the `ends` is left out.
    """
    found = []
    for chain in chains:
        if span := span_of(chain, spans):
            members = [chain.at(r) for r in range(span[0], span[1] + 1)]
            if not ends.isdisjoint(members):
                members = _within(members, ends)
            if len(members) >= LEAST:
                found.append(Fold.of(members))
    while True:
        gone = {index for fold in found for index in fold.rest}
        kept = [fold for fold in found if _readable(program, fold, gone)]
        if len(kept) == len(found):
            return kept
        found = kept


def _within(members: list[int], ends: Set[int]) -> list[int]:
    """The middle of a chain, up to the ends nearest to it."""
    half, start, stop = len(members) // 2, 0, len(members)
    for place, member in enumerate(members):
        if member in ends and place < half:
            start = place
        elif member in ends:
            stop = min(stop, place + 1)
    return members[start:stop]


def _readable(program: Program, fold: Fold, gone: set[int]) -> bool:
    if fold.kept[0] < min(fold.rest):
        return True
    return all(
        reader in gone or reader > fold.kept[0]
        for index in fold.rest
        for value in program.ops[index].results
        for reader in program.uses.get(value, ())
    )
