"""`Multiplicity`: how often what a folded program has once stands in the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from partir.spmd.program import Collective, SpmdOp


@dataclass(frozen=True)
class Multiplicity:
    """How often each op and each argument of a folded program stands in the whole.

    Ops by number; arguments and results by position. `counted` is, for each op, the
    one of its chain that counts for the others. `carried` is what loops carry, by
    position. `passing` are values that only what is repeated reads, but for the last.
    `between` are values that go from one repetition to the next, and how often.
    """

    ops: Sequence[int]
    arguments: Sequence[int]
    results: Sequence[int]
    counted: Sequence[int]
    carried: Mapping[int, Sequence[int]] = field(default_factory=dict)
    passing: frozenset[int] = frozenset()
    between: Mapping[int, int] = field(default_factory=dict)

    def of(self, op: SpmdOp) -> int:
        """Of an op of the lowered program; moves count where they are needed."""
        if isinstance(op, Collective):
            value, _, consumer = op.cause
            if consumer is None and value in self.between:
                return self.between[value]
        return self.made(op)

    def made(self, op: SpmdOp) -> int:
        """Of what an op of the lowered program makes."""
        if isinstance(op, Collective):
            _, producer, consumer = op.cause
            node = producer if consumer is None else consumer
            return 1 if node is None else self.ops[node]
        return self.ops[op.node]
