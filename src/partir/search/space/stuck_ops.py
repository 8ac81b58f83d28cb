"""Moves that choose loops for ops where propagation got stuck."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from partir.partition.state import State
from partir.rules.factor import Factor
from partir.search.space.move import Move

_MOST_ALONE = 4  # choices for ops of one kind, those that move the most bytes


def stuck_moves(state: State, axes: Iterable[str]) -> list[Move]:
    """Loops that stuck ops could have: for all at once, for the heaviest alone."""
    together: dict[tuple[str, str], list[tuple[int, Factor]]] = {}
    alone: dict[tuple[str, object], list[tuple[int, Factor]]] = {}
    bytes_of: dict[tuple[str, object], float] = {}
    for axis in axes:
        for node, known, factors in _stuck(state, axis):
            for which, factor in (("first", factors[0]), ("last", factors[-1])):
                together.setdefault((axis, which), []).append((node, factor))
            moved = _bytes_around(state, node)
            for factor in factors:
                key = axis, (state.graph.signatures[node], known, factor)
                alone.setdefault(key, []).append((node, factor))
                bytes_of[key] = bytes_of.get(key, 0.0) + moved
    heaviest = sorted(alone, key=lambda key: -bytes_of[key])[:_MOST_ALONE]
    return [
        *(
            Move(axis, f"all stuck ops by their {which} loop", loops=tuple(loops))
            for (axis, which), loops in together.items()
        ),
        *(
            Move(key[0], "a stuck op", loops=tuple(alone[key]), rank=rank)
            for rank, key in enumerate(heaviest)
        ),
    ]


def _stuck(
    state: State, axis: str
) -> Iterator[tuple[int, tuple[int, ...], list[Factor]]]:
    """Stuck ops, what is known around each, and the factors asked for."""
    size = state.mesh.axes[axis]
    for conflict in state.conflicts[axis]:
        node = conflict.node
        if state.graph.op(node) is None:  # what is carried follows what makes it
            continue
        known, nest = state.known(node, axis), state.nests[node]
        numbers = nest.supported(size, known)
        yield node, known, [nest.factors[n].resized(0) for n in numbers]


def _bytes_around(state: State, node: int) -> int:
    graph = state.graph
    types = graph.program.types
    return sum(types[v].bytes for v in graph.operands[node] + graph.results[node])
