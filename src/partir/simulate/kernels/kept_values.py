"""Values that are in memory anyway: what is made of them is computed again for nothing.

A compiler that minds memory keeps no result of an elementwise chain for the backward
pass if it keeps what the chain was made of. If nothing else reads that, it is the
result that is kept, and what it was made of is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partir.rules.traits import Role
from partir.simulate.kernels.facts import Facts
from partir.spmd.program import Block

_LONGEST = 24  # ops of a chain that is still looked through
_SMALL = 8  # what is so many times smaller may be kept beside it
_SLACK = 0.1  # of the time between an op and the last kernel that wants it


class KeptValues:
    """Until where in a block values are read, from last op to first."""

    def __init__(
        self,
        block: Block,
        facts: Sequence[Facts | None],
        sizes: Sequence[int],
        handed: Mapping[int, int],
    ) -> None:
        """Nothing is read yet.

        `handed` is what repetitions hand on, with what the first one gets instead: who
        reads that reads the other, too.
        """
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
        """Whether what an op reads is there until the last kernel that wants the op."""
        op, last = self.block.ops[number], max(kernels)
        size = max(self.sizes[v] for v in op.results)
        wanted = last - _SLACK * (last - number)
        return all(self._kept(v, wanted, size, _LONGEST) for v in op.operands)

    def _kept(self, value: int, wanted: float, size: int, steps: int) -> bool:
        maker = self.makers.get(value)
        if maker is None or self.sizes[value] * _SMALL <= size:
            return True
        until = self.until.get(value, -1)
        if value in self.handed:
            until = max(until, self.until.get(self.handed[value], -1))
        if until >= wanted:
            return True
        fact = self.facts[maker]
        if fact is None or steps == 0 or not (fact.fused or fact.role is Role.VIEW):
            return False
        operands = self.block.ops[maker].operands
        return all(self._kept(v, wanted, size, steps - 1) for v in operands)
