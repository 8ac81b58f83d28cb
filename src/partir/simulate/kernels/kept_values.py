"""Values that are in memory anyway: what is made of them is computed again for nothing.

A compiler that minds memory keeps no result of an elementwise chain for the backward
pass if it keeps what the chain was made of. If nothing else reads that, it is the
smaller of the two that is kept: the result, unless numbers were widened on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partir.rules.traits import Role
from partir.simulate.kernels.facts import Facts
from partir.spmd.program import Block

_LONGEST = 24  # ops of a chain that is still looked through
_SMALL = 8  # what is so many times smaller may be kept beside it
_NARROWER = 2  # so many times less is kept instead: numbers before they are widened
_SLACK = 0.1  # of the time between an op and the last kernel that wants it


class KeptValues:
    """Until where in a block values are read, from last op to first."""

    def __init__(
        self,
        block: Block,
        facts: Sequence[Facts | None],
        sizes: Sequence[int],
        handed: Mapping[int, int],
        prefers_sources: bool = False,
    ) -> None:
        """Nothing is read yet.

        `handed` is what repetitions hand on, with what the first one gets instead: who
        reads that reads the other, too. `prefers_sources` says what to keep of two that
        are as large.
        """
        self.prefers_sources = prefers_sources
        self.block, self.facts, self.sizes = block, facts, sizes
        self.handed = handed
        self.makers = {v: n for n, op in enumerate(block.ops) for v in op.results}
        self.until = dict.fromkeys(block.results, len(block.ops))

    def maker_of(self, value: int) -> Facts | None:
        """What is known of the op that makes a value, if one in the block does."""
        maker = self.makers.get(value)
        return None if maker is None else self.facts[maker]

    def read(self, values: Sequence[int], until: int) -> None:
        """Values are read by a kernel that ends with this op."""
        for value in values:
            if self.until.get(value, -1) < until:
                self.until[value] = until

    def lasts(self, number: int, kernels: frozenset[int]) -> bool:
        """Whether what an op reads is there until the last kernel that wants the op.

        Or so little of it is not that this is kept for them instead.
        """
        op, last = self.block.ops[number], max(kernels)
        size = max(self.sizes[v] for v in op.results)
        wanted = last - _SLACK * (last - number)
        alone = self.prefers_sources and self._has_one_source(op.operands, size)
        room = size if alone else size // _NARROWER
        return self._all_more(op.operands, wanted, size, _LONGEST, room + 1) <= room

    def _has_one_source(self, values: Sequence[int], size: int) -> bool:
        """Whether one of the values is neither small nor a small one repeated."""
        makers = {value: self.maker_of(value) for value in values}
        return (
            sum(
                self.sizes[value] * _SMALL > size
                and (maker is None or not maker.repeats)
                for value, maker in makers.items()
            )
            == 1
        )

    def _more(self, value: int, wanted: float, size: int, steps: int) -> int:
        """Bytes that have to be kept longer so that a value is there until then."""
        maker, own = self.makers.get(value), self.sizes[value]
        if maker is None or own * _SMALL <= size:
            return 0
        until = self.until.get(value, -1)
        if value in self.handed:
            until = max(until, self.until.get(self.handed[value], -1))
        if until >= wanted:
            return 0
        fact = self.facts[maker]
        if fact is None or steps == 0 or not (fact.fused or fact.role is Role.VIEW):
            return own
        operands = self.block.ops[maker].operands
        return self._all_more(operands, wanted, size, steps - 1, own)

    def _all_more(
        self, values: Sequence[int], wanted: float, size: int, steps: int, most: int
    ) -> int:
        """That of several values, or `most` if it is no less."""
        more = 0
        for value in dict.fromkeys(values):
            more += self._more(value, wanted, size, steps)
            if more >= most:
                return most
        return more
