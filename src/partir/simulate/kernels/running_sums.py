"""Running sums over repetitions, of which only the terms are in memory.

A cheap op that several kernels read is computed in each of them. A sum that every
repetition adds to (residuals, the nodes of a graph) is then not written: later readers
read all its terms, which live until the last of them. Where more kernels would compute
the sum than the compiler allows, it is written after all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from partir.rules.traits import Role
from partir.simulate.device.fusion_policy import FusionPolicy
from partir.simulate.kernels.kernel import Kernels, Term

_FROM_MEMORY = frozenset((Role.OPAQUE, Role.UPDATE))


def running_terms(block: Kernels, policy: FusionPolicy) -> dict[int, Term]:
    """Terms of sums that are handed on, of a block in order."""
    sums = _RunningSums(block, policy)
    terms: dict[int, Term] = {}
    for first, values in block.handed.items():
        own = sums.terms(first, values)
        term = sums.term(first, values) if own else None
        if term is not None:
            terms.update(dict.fromkeys(own, term))
    return terms


class _RunningSums:
    """Who makes and who reads what repetitions hand on."""

    def __init__(self, block: Kernels, policy: FusionPolicy) -> None:
        self.block, self.policy = block, policy
        self.maker: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        handed = {*block.handed, *(v for vs in block.handed.values() for v in vs)}
        for place, kernel in enumerate(block.kernels):
            for value in handed.intersection(kernel.reads):
                self.readers.setdefault(value, []).append(place)
            for value in handed.intersection(kernel.writes):
                self.maker[value] = place

    def terms(self, first: int, values: Sequence[int]) -> set[int]:
        """What a repetition adds to the sum that it gets, if it is one."""
        if first in values:  # not written
            return {*values} - {first}
        if len(values) > 1 or values[0] not in self.maker:
            return set()
        kernel = self.block.kernels[self.maker[values[0]]]
        sums = kernel.role in self.policy.recomputed and first in kernel.reads
        return {*kernel.reads} - {first} if sums else set()

    def term(self, first: int, values: Sequence[int]) -> Term | None:
        """How many are in memory at a time, and until when; None if the sum is.

        They are counted from the last, as kernels are made from the last op on.
        """
        counts, policy = self.block.counts, self.policy
        makers = {self.maker[v] for v in values if v != first and v in self.maker}
        inside = {p for p in self.readers.get(first, ()) if counts[p] > 1} - makers
        after = {
            place
            for value in values
            if value != first
            for place in self.readers.get(value, ())
            if counts[place] == 1
        }
        if self._is_written(inside):
            return None
        left = max(policy.most_kernels - len(after), 0)
        count = left // max(len(inside), 1) + 1
        if policy.most_operands:
            count = min(count, policy.most_operands)
        ends = (self.block.spans[place][1] for place in inside | after)
        return Term(count, max(ends, default=0.0))

    def _is_written(self, readers: Collection[int]) -> bool:
        """Whether a sum with these readers is in memory itself."""
        roles = [self.block.kernels[place].role for place in readers]
        if not _FROM_MEMORY.isdisjoint(roles):
            return True
        policy = self.policy
        shared = policy.shared_with_reductions or Role.ROOT not in roles
        return len(readers) > (policy.most_kernels if shared else 1)
