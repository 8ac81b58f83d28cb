"""What is stored for one reader, and computed again in the kernels of others.

A product wants its operands in memory. XLA on CPUs still fuses what makes one of them
into elementwise readers, if it is cheap and reads no more than one value of its size:
they then read as much as before, and the value need not be kept for them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from partir.simulate.kernels.facts import Facts
from partir.spmd.program import Block, SpmdOp


class ComputedAgain:
    """Kernels that compute stored values of a block themselves."""

    def __init__(
        self,
        block: Block,
        facts: Sequence[Facts | None],
        splats: Collection[int],
        active: bool,
    ) -> None:
        """Nothing is wanted yet; `splats` are values that are one number throughout.

        Unless `active`, nothing is computed again.
        """
        self.active = active
        self.kernels: dict[int, frozenset[int]] = {}  # by the number of the op
        self.values: set[int] = set()
        self.sources: dict[int, tuple[int, ...]] = {}  # what such values are made of
        self.roots: set[int] = set()  # kernels that are reductions
        self._wanted: dict[int, frozenset[int]] = {}
        self._splats = splats
        self._repeated = {
            value
            for op, fact in zip(block.ops, facts, strict=True)
            if active and fact is not None and fact.repeats
            for value in op.results
        }

    def with_more(
        self,
        number: int,
        op: SpmdOp,
        fact: Facts,
        kernels: frozenset[int],
        stored: bool,
    ) -> frozenset[int]:
        """Kernels that compute an op, and those that do so though it is `stored`.

        All of them read what the op reads, and could compute that, too.
        """
        if not self.active:
            return kernels
        if stored and fact.fused and fact.recomputed and self._reads_one(op):
            more = self._wanted.get(op.results[0], frozenset()).difference(self.roots)
            if more:  # reductions read what is stored
                self.kernels[number] = more
                self.values.add(op.results[0])
                kernels |= more
        for value in op.operands:
            known = self._wanted.get(value)
            self._wanted[value] = known | kernels if known else kernels
        return kernels

    def _reads_one(self, op: SpmdOp) -> bool:
        """Whether at most one value that it reads is not repeated, nor one number."""
        wide = [v for v in op.operands if v not in self._repeated]
        return sum(v not in self._splats for v in wide) <= 1
