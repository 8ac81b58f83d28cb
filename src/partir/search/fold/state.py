"""The state of the folded program that a partition of the whole one stands for."""

from __future__ import annotations

from dataclasses import replace

from partir.ir.core import Signature
from partir.partition.graph import Graph
from partir.partition.state import State
from partir.rules.elementwise import FUSED, TIE
from partir.rules.fused import fused_nest
from partir.rules.nest import Nest
from partir.search.fold.folded import Folded


def folded_state(folded: Folded, state: State) -> State:
    """The partition so far, of the folded program."""
    small = State(Graph(folded.program), state.mesh)
    sources = [members[0] for members in folded.members]
    small.nests = [
        _nest(signature, state, node)
        for signature, node in zip(small.graph.signatures, folded.nodes, strict=True)
    ]
    small.tilings = [state.tilings[value] for value in sources]
    ops = len(folded.program.ops)
    handed = {
        n for n in range(ops, len(folded.nodes)) if state.graph.op(folded.nodes[n])
    }
    for axis in state.mesh:
        small.homes[axis] = [state.homes[axis][value] for value in sources]
        small.seen[axis] = [state.seen[axis][value] for value in sources]
        _copy_nodes(folded, state, small, axis, handed)
    for number, source in enumerate(sources):
        for axis in state.mesh:
            origin = state.tactic_of(axis, source)
            if origin is not None:
                small.value_origins[axis][number] = origin
            if (axis, source) in state.closed:
                small.closed[(axis, number)] = state.closed[(axis, source)]
            if (axis, source) in state.gathers:
                small.gathers[(axis, number)] = state.gathers[(axis, source)]
        if source in state.padded:
            small.padded[number] = True
    small.step, small.epoch = state.step, state.epoch
    return small


def _copy_nodes(
    folded: Folded, state: State, small: State, axis: str, handed: set[int]
) -> None:
    """What is chosen and what is stuck; ties of what is handed on follow loops."""
    chosen = state.chosen[axis]
    small.chosen[axis] = bytearray(chosen[node] for node in folded.nodes)
    for node in handed:
        loops = small.nests[node].loops
        small.chosen[axis][node] = any(loop.axis == axis for loop in loops)
    left = frozenset(state.left[axis])
    small.left[axis] = tuple(
        number
        for number, node in enumerate(folded.nodes)
        if node in left and number not in handed
    )
    stuck = {c.node: c for c in state.conflicts[axis]}
    small.conflicts[axis] = tuple(
        replace(stuck[node], node=number)
        for number, node in enumerate(folded.nodes)
        if node in stuck and number not in handed
    )


def _nest(signature: Signature, state: State, node: int) -> Nest:
    """Of a node; groups, and what is handed on, are in the loops of what makes them."""
    if signature.kind == FUSED or (signature.kind == TIE and state.graph.op(node)):
        return fused_nest(signature, state.nests[node])
    return state.nests[node]
