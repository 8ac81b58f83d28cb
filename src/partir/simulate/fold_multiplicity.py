"""`Multiplicity`: how often what a folded program has once stands in the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from partir.spmd.program import Collective, SpmdOp, node_of

Span = tuple[float, float]


@dataclass(frozen=True)
class Multiplicity:
    """How often each op and each argument of a folded program stands in the whole.

    Ops by number; arguments and results by position, without results that are only
    handed from one repetition to the next. `succeeded` is the argument whose place each
    result could take, if any. `carried` is what loops carry, by position.
    `spans` is where the first and the last of an op's repetitions stand in the whole.
    `handed` maps values that a repetition hands to the next to what the first one gets.
    """

    ops: Sequence[int]
    arguments: Sequence[int]
    results: Sequence[int]
    succeeded: Sequence[int | None]
    spans: Sequence[Span]
    carried: Mapping[int, Sequence[int]] = field(default_factory=dict)
    handed: Mapping[int, int] = field(default_factory=dict)

    def of(self, op: SpmdOp) -> int:
        """Of an op of the lowered program; moves count where they are needed."""
        node = node_of(op)
        if node is None:
            return 1
        if isinstance(op, Collective):
            value, _, consumer = op.cause
            if consumer is None and value in self.handed and not op.monoid:
                return self.ops[node] - 1  # the last is not handed on
        return self.ops[node]
