"""Ops that every device of an axis computes whole though their operands are tiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from partir.partition.state import State
from partir.rules.registry import has_rule


@dataclass(frozen=True, slots=True)
class ReplicatedOp:
    """One such op, with the reason."""

    name: str
    kind: str
    axis: str
    reason: str
    source: str

    def __str__(self) -> str:
        """One line."""
        return f'{self.name} ({self.source}) is whole on "{self.axis}": {self.reason}'


def find_replicated(state: State) -> Iterator[ReplicatedOp]:
    """Ops computed whole on an axis that tiles their operands: no rule, or conflict."""
    program, graph = state.graph.program, state.graph
    for axis in state.mesh:
        left = {c.node for c in state.conflicts[axis]}
        for node, op in enumerate(program.ops):
            if state.chosen[axis][node] or node in graph.owned:
                continue
            if not any(state.homes[axis][v] >= 0 for v in op.operands):
                continue
            known = has_rule(op.signature)
            if known and node not in left:
                continue
            reason = "its operands disagree" if known else "it has no rule"
            name = program.addresses.get(op.results[0], op.kind) if op.results else ""
            yield ReplicatedOp(name, op.kind, axis, reason, str(op.location))
