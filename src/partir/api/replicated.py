"""Ops that every device of an axis computes whole though their operands are tiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from partir.ir.source import Location
from partir.partition.state import State
from partir.rules.registry import has_rule


@dataclass(frozen=True, slots=True)
class ReplicatedOp:
    """One such op, with the reason."""

    name: str
    kind: str
    axis: str
    reason: str
    source: Location

    def __str__(self) -> str:
        """One line."""
        return f'{self.name} ({self.source}) is whole on "{self.axis}": {self.reason}'


def find_replicated(state: State) -> Iterator[ReplicatedOp]:
    """Ops computed whole on an axis that tiles their operands, and not by request."""
    program = state.graph.program
    for axis in state.mesh:
        left = {c.node for c in state.conflicts[axis]}
        for node, op in enumerate(program.ops):
            if state.chosen[axis][node] or node in state.graph.owned:
                continue
            if not any(state.seen[axis][v] >= 0 for v in op.operands):
                continue
            reason = _reason(state, axis, node, node in left)
            if reason:
                first = op.results[0] if op.results else -1
                name = program.addresses.get(first, op.kind)
                yield ReplicatedOp(name, op.kind, axis, reason, op.location)


def _reason(state: State, axis: str, node: int, conflict: bool) -> str:
    """Why an op is computed whole; nothing if a value kept whole asks for it."""
    if not has_rule(state.graph.signatures[node]):
        return "it has no rule"
    if conflict:
        return "its operands disagree"
    known = state.known(node, axis)
    if not state.nests[node].supported(state.mesh.axes[axis], known):
        return "its rule has no loop along the dimension that is tiled"
    return ""
