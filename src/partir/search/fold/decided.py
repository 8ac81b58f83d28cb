"""What a partition has decided before a search, for folding and for what is folded."""

from __future__ import annotations

from dataclasses import replace

from partir.ir.core import Signature
from partir.partition.graph import Graph
from partir.partition.state import State
from partir.rules.elementwise import FUSED, TIE
from partir.rules.fused import fused_nest
from partir.rules.nest import WHOLE, Nest
from partir.search.fold.folded import Folded


class Decided:
    """What a partition has decided of an op or an argument."""

    def __init__(self, state: State | None) -> None:
        """Nothing is decided without a state."""
        self.state = state
        found = state.conflicts.values() if state else ()
        self.stuck = {conflict.node for some in found for conflict in some}

    def op(self, index: int) -> object:
        """Loops of an op, and how its results are kept."""
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
        """Whether an operand is kept whole, so that an op may differ from its kin."""
        state = self.state
        assert state is not None
        operands = state.graph.operands[node]
        return any(state.seen[a][v] == WHOLE for a in state.mesh for v in operands)

    def value(self, value: int) -> object:
        """Home of a value on each axis."""
        state = self.state
        if state is None:
            return None
        return tuple((state.homes[a][value], state.seen[a][value]) for a in state.mesh)


def folded_state(folded: Folded, state: State) -> State:
    """The partition so far, of the folded program."""
    made = State(Graph(folded.program), state.mesh)
    sources = [members[0] for members in folded.members]
    made.nests = [
        _nest(signature, state, node)
        for signature, node in zip(made.graph.signatures, folded.nodes, strict=True)
    ]
    made.tilings = [state.tilings[value] for value in sources]
    ops = len(folded.program.ops)
    handed = {
        n for n in range(ops, len(folded.nodes)) if state.graph.op(folded.nodes[n])
    }
    for axis in state.mesh:
        made.homes[axis] = [state.homes[axis][value] for value in sources]
        made.seen[axis] = [state.seen[axis][value] for value in sources]
        chosen = state.chosen[axis]
        made.chosen[axis] = bytearray(chosen[node] for node in folded.nodes)
        for node in handed:
            loops = made.nests[node].loops
            made.chosen[axis][node] = any(loop.axis == axis for loop in loops)
        stuck = {c.node: c for c in state.conflicts[axis]}
        made.conflicts[axis] = tuple(
            replace(stuck[node], node=number)
            for number, node in enumerate(folded.nodes)
            if node in stuck and number not in handed
        )
    for number, source in enumerate(sources):
        for axis in state.mesh:
            if (axis, source) in state.value_origins:
                origin = state.value_origins[(axis, source)]
                made.value_origins[(axis, number)] = origin
    made.step, made.epoch = state.step, state.epoch
    return made


def _nest(signature: Signature, state: State, node: int) -> Nest:
    """Of a node; groups, and what is handed on, are in the loops of what makes them."""
    if signature.kind == FUSED or (signature.kind == TIE and state.graph.op(node)):
        return fused_nest(signature, state.nests[node])
    return state.nests[node]
