"""What of a program is kept when it is folded, and what that stands for."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from partir.ir.core import Program
from partir.search.fold.extents import Fold, folds_of, span_of, spans_of
from partir.search.fold.repeats import Chain, Repeats


class Plan:
    """Ops, values and places in loops that go, each with the one that is kept for it.

    `kept` maps values that are gone; `weight` and `members` are of kept ops in chains,
    `argument_weight` of kept arguments. `dropped` are positions that a loop carries no
    more, `carried` the weights of those that it still does. `twins` are values that are
    decided alike though none stands for the other.
    """

    def __init__(
        self, program: Program, repeats: Repeats, ends: Set[int] = frozenset()
    ) -> None:
        """Chains end at `ends`."""
        self.program = program
        self.weight: dict[int, int] = {}
        self.members: dict[int, tuple[int, ...]] = {}
        self.argument_weight: dict[int, int] = {}
        self.gone: set[int] = set()  # ops
        self.kept: dict[int, int] = {}
        self.stands_for: dict[int, list[int]] = {}
        self.dropped: dict[int, set[int]] = {}
        self.carried: dict[tuple[int, int], int] = {}
        self.twins: list[tuple[int, int]] = list(repeats.like)
        spans = spans_of(program, repeats)
        self._position = _positions(program)
        self._folds = folds_of(repeats.ops, spans, ends)
        for one in self._folds:
            self._fold_ops(one)
        for chain in repeats.arguments:
            if span := span_of(chain, spans):
                self._fold_arguments(chain, *span)
            else:  # not folded, but decided alike
                self.twins += pairwise(chain.members)

    def _fold_ops(self, fold: Fold) -> None:
        ops = self.program.ops
        self.weight[fold.kept] = len(fold.rest) + 1
        self.members[fold.kept] = (fold.kept, *fold.rest)
        for index in fold.rest:
            self.gone.add(index)
            for region in ops[index].regions:
                self.gone.update(self.program.walk(region))
            for pair in zip(ops[index].results, ops[fold.kept].results, strict=True):
                self._replace(*pair)

    def _fold_arguments(self, chain: Chain, first: int, last: int) -> None:
        kept, *rest = [chain.at(r) for r in range(first, last + 1)]
        self.argument_weight[kept] = len(rest) + 1
        for value in rest:
            self._replace(value, kept)
        if kept in self._position:
            self._fold_carried(kept, rest)

    def _fold_carried(self, kept: int, rest: list[int]) -> None:
        """What a loop carries for these goes with them."""
        owner, place = self._position[kept]
        gone = [self._position[value][1] for value in rest]
        self.carried[(owner, place)] = len(rest) + 1
        self.dropped.setdefault(owner, set()).update(gone)
        op = self.program.ops[owner]
        for values in (op.results, *(region.arguments for region in op.regions)):
            for other in gone:
                if values[other] not in self.kept:
                    self._replace(values[other], values[place])

    def _replace(self, value: int, kept: int) -> None:
        self.kept[value] = kept
        self.stands_for.setdefault(kept, []).append(value)

    # What the program that is built of it asks

    def read(self, value: int) -> int:
        """A value, or the one that is kept for it."""
        return self.kept.get(value, value)

    def span(self, index: int) -> tuple[int, int]:
        """Where the first and the last of an op's repetitions stand."""
        members = self.members.get(index, (index,))
        return members[0], members[-1]

    def still(self, owner: int, values: Sequence[int], count: int) -> Sequence[int]:
        """Values without those at positions that a loop carries no more."""
        gone = self.dropped.get(owner)
        if not gone or len(values) != count:
            return values
        return [v for place, v in enumerate(values) if place not in gone]

    def carried_weights(self, owner: int) -> tuple[int, ...]:
        """Weights of what a loop still carries."""
        places = range(len(self.program.ops[owner].operands))
        kept = self.still(owner, places, len(places))
        return tuple(self.carried.get((owner, place), 1) for place in kept)

    def handed(self, there: Set[int]) -> dict[int, int]:
        """What a repetition hands to the next, and what the first gets instead.

        Of the values that are `there` at all.
        """
        program = self.program
        found: dict[int, int] = {}
        for fold in self._folds:
            operands = (program.ops[i].operands for i in (fold.rest[0], fold.kept))
            for pair in zip(*operands, strict=True):
                value, first = map(self.read, pair)
                if (
                    value != first
                    and program.producers.get(value) in self.weight
                    and {value, first} <= there
                    and first not in program.splats
                    and program.types[value] is program.types[first]
                ):
                    found.setdefault(value, first)
        return found


def _positions(program: Program) -> dict[int, tuple[int, int]]:
    """Loops, and places among what they carry, of what is carried into their bodies."""
    return {
        value: (index, place)
        for index, op in enumerate(program.ops)
        if len(op.regions) == 2 and len(op.operands) == len(op.results)
        for place, value in enumerate(op.regions[1].arguments)
    }
