"""`FoldPlan`: which ops and values stay when a program is folded, and for which."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from partir.ir.core import Program
from partir.search.fold.extents import (
    FoldedChain,
    extent_of,
    extents_of,
    folded_chains,
)
from partir.search.fold.repeats import Chain, Repeats


class FoldPlan:
    """Ops, values and places in loops that are removed, and what represents them.

    `representative` maps values that are removed; `count` and `members` are of ops that
    represent a chain, `argument_count` of arguments that do. `dropped` are positions
    that a loop carries no more, `carried_count` the counts of those that it still does.
    `twins` are values that are decided alike though none represents the other.
    """

    def __init__(
        self, program: Program, repeats: Repeats, ends: Set[int] = frozenset()
    ) -> None:
        """Chains end at `ends`."""
        self.program = program
        self.count: dict[int, int] = {}
        self.members: dict[int, tuple[int, ...]] = {}
        self.argument_count: dict[int, int] = {}
        self.removed: set[int] = set()  # ops
        self.representative: dict[int, int] = {}
        self.represented: dict[int, list[int]] = {}
        self.dropped: dict[int, set[int]] = {}
        self.carried_count: dict[tuple[int, int], int] = {}
        self.twins: list[tuple[int, int]] = list(repeats.twins)
        extents = extents_of(program, repeats)
        self._position = _positions(program)
        self._chains = folded_chains(repeats.ops, extents, ends)
        for chain in self._chains:
            self._fold_ops(chain)
        for arguments in repeats.arguments:
            if extent := extent_of(arguments, extents):
                self._fold_arguments(arguments, *extent)
            else:  # not folded, but decided alike
                self.twins += pairwise(arguments.members)

    def _fold_ops(self, chain: FoldedChain) -> None:
        ops, first = self.program.ops, chain.representative
        self.count[first] = len(chain.others) + 1
        self.members[first] = (first, *chain.others)
        for index in chain.others:
            self.removed.add(index)
            for region in ops[index].regions:
                self.removed.update(self.program.walk(region))
            for pair in zip(ops[index].results, ops[first].results, strict=True):
                self._replace(*pair)

    def _fold_arguments(self, chain: Chain, first: int, last: int) -> None:
        stays, *others = [chain.at(r) for r in range(first, last + 1)]
        self.argument_count[stays] = len(others) + 1
        for value in others:
            self._replace(value, stays)
        if stays in self._position:
            self._fold_carried(stays, others)

    def _fold_carried(self, stays: int, others: list[int]) -> None:
        """What a loop carries for these goes with them."""
        owner, place = self._position[stays]
        dropped = [self._position[value][1] for value in others]
        self.carried_count[(owner, place)] = len(others) + 1
        self.dropped.setdefault(owner, set()).update(dropped)
        op = self.program.ops[owner]
        for values in (op.results, *(region.arguments for region in op.regions)):
            for other in dropped:
                if values[other] not in self.representative:
                    self._replace(values[other], values[place])

    def _replace(self, value: int, by: int) -> None:
        self.representative[value] = by
        self.represented.setdefault(by, []).append(value)

    # What the program that is built of it asks

    def read(self, value: int) -> int:
        """A value, or the one that represents it."""
        return self.representative.get(value, value)

    def span(self, index: int) -> tuple[int, int]:
        """Where the first and the last of an op's repetitions stand."""
        members = self.members.get(index, (index,))
        return members[0], members[-1]

    def remaining(
        self, owner: int | None, values: Sequence[int], count: int
    ) -> Sequence[int]:
        """Values without those at positions that a loop carries no more."""
        dropped = None if owner is None else self.dropped.get(owner)
        if not dropped or len(values) != count:
            return values
        return [v for place, v in enumerate(values) if place not in dropped]

    def carried_counts(self, owner: int) -> tuple[int, ...]:
        """How many each value that a loop still carries stands for."""
        places = range(len(self.program.ops[owner].operands))
        remaining = self.remaining(owner, places, len(places))
        return tuple(self.carried_count.get((owner, place), 1) for place in remaining)

    def handed(self, there: Set[int]) -> dict[int, int]:
        """What a repetition hands to the next, and what the first gets instead.

        Of the values that are `there` at all.
        """
        program = self.program
        handed: dict[int, int] = {}
        for chain in self._chains:
            pair = chain.others[0], chain.representative
            operands = (program.ops[index].operands for index in pair)
            for later, earlier in zip(*operands, strict=True):
                value, first = self.read(later), self.read(earlier)
                if (
                    value != first
                    and program.producers.get(value) in self.count
                    and {value, first} <= there
                    and first not in program.splats
                    and program.types[value] is program.types[first]
                ):
                    handed.setdefault(value, first)
        return handed


def _positions(program: Program) -> dict[int, tuple[int, int]]:
    """Loops, and places among what they carry, of what is carried into their bodies."""
    return {
        value: (index, place)
        for index, op in enumerate(program.ops)
        if len(op.regions) == 2 and len(op.operands) == len(op.results)
        for place, value in enumerate(op.regions[1].arguments)
    }
