"""What a partition has decided before it is folded, of each op and argument."""

from __future__ import annotations

from partir.partition.state import State
from partir.rules.nest import WHOLE


class PriorDecisions:
    """What a partition has decided of an op or an argument."""

    def __init__(self, state: State | None) -> None:
        """Nothing is decided without a state."""
        self.state = state
        conflicts = state.conflicts.values() if state else ()
        self.stuck = {conflict.node for some in conflicts for conflict in some}

    def op(self, index: int) -> object:
        """Loops of an op, and homes of its results."""
        if self.state is None:
            return None
        results = self.state.graph.program.ops[index].results
        return self.state.nests[index], *map(self.value, results)

    def alike(self, one: int, other: int) -> bool:
        """Whether elementwise ops are in the same loops, what the first makes too."""
        state = self.state
        if state is None or one == other:
            return True
        (value,), (last,) = (state.graph.results[node] for node in (one, other))
        nests = state.nests[one], state.nests[other]
        loops = [[(x.axis, x.factor.results[0]) for x in n.loops] for n in nests]
        return (
            loops[0] == loops[1]
            and state.tilings[value] == nests[0].gives[0]
            and self.value(value) == self.value(last)
            and all(state.chosen[a][one] == state.chosen[a][other] for a in state.mesh)
            and one not in self.stuck
            and not self._reads_whole(one)
            and not self._reads_whole(other)
        )

    def _reads_whole(self, node: int) -> bool:
        """Whether an operand is pinned whole, so that an op may differ from its kin."""
        state = self.state
        assert state is not None
        operands = state.graph.operands[node]
        return any(state.seen[a][v] == WHOLE for a in state.mesh for v in operands)

    def value(self, value: int) -> object:
        """Home of a value on each axis, what readers see, what is closed or kept."""
        state = self.state
        if state is None:
            return None
        homes = ((state.homes[a][value], state.seen[a][value]) for a in state.mesh)
        closed = (state.closed.get((a, value)) for a in state.mesh)
        kept = (state.gathers.get((a, value)) for a in state.mesh)
        return (
            tuple(homes),
            tuple(closed) if state.closed else (),
            tuple(kept) if state.gathers else (),
        )
