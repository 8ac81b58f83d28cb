"""Moves that keep what is gathered of weights, rather than gather it again."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from partir.partition.state import State
from partir.search.space.move import Move, is_open

_MOST = 8  # weights that are tried one by one


def kept_moves(state: State, weights: Collection[int], axis: str) -> Iterator[Move]:
    """All weights that are tiled over an axis, then the largest of them alone."""
    program = state.graph.program
    tiled = [value for value in weights if is_open(state, value, axis)]
    tiled.sort(key=lambda value: (-program.types[value].bytes, value))
    if tiled:
        yield Move(axis, "weights, once they are gathered", kept=tuple(tiled))
    for value in tiled[:_MOST] if len(tiled) > 1 else ():
        yield Move(axis, f"{program.names[value]}, once gathered", kept=(value,))
