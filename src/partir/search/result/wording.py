"""Moves and decisions in words."""

from __future__ import annotations

from collections.abc import Iterator

from partir.partition.state import State
from partir.rules.traits import changes_form, is_light
from partir.search.goal import Outcome
from partir.search.problem import Problem
from partir.search.space.move import Move
from partir.search.space.moves import Moves


def move_label(moves: Moves, move: Move, state: State, taken: dict[int, int]) -> str:
    """What kind of decision this is, in the words of those who partition models."""
    if move.kept:
        return "gathered once"
    if move.loops:
        return "inputs and weights at once" if taken else "stuck ops"
    if move.whole:
        return "sharded optimizer state (ZeRO-2-like)"
    state_taken = [v for v in taken if v in moves.groups.state]
    if not state_taken:
        return "split inputs" if taken else "split values inside"
    weights = [v for v in state_taken if v in moves.groups.weights]
    types = moves.graph.program.types
    size = sum(types[v].bytes for v in weights)
    split = sum(types[v].bytes for v in weights if _split(state, v, move.axis))
    if size and 2 * split >= size:
        return "model parallel (Megatron-like)"
    return "sharded state (ZeRO-3-like)" if weights else "sharded state"


def _split(state: State, value: int, axis: str) -> bool:
    """Whether what reads a value loops over its tiles, rather than gathering them."""
    graph = state.graph
    for node in graph.neighbours[value]:
        if value not in graph.operands[node]:
            continue
        nest, position = state.nests[node], graph.operands[node].index(value)
        if changes_form(graph.nests[node]):
            if any(_split(state, result, axis) for result in graph.results[node]):
                return True
        elif not is_light(graph.nests[node]):
            for loop in nest.loops:
                if loop.axis == axis and loop.factor.operands[position] is not None:
                    return True
    return False


def subject_text(problem: Problem, move: Move) -> str:
    """What is decided, in a few words."""
    if move.loops and not move.tiles:
        return f"{len(move.loops)} ops that propagation left"
    if move.dimension is None:
        return move.subject
    dimension = problem.dimensions[move.dimension]
    names = problem.folded.program.names
    places = [f"{names[v]}[{d}]" for v, d in dimension.arguments if v in names]
    shown = ", ".join(places[:2]) + (", …" if len(places) > 2 else "")
    where = f" ({shown})" if shown else ""
    return f"{move.subject} along the dimension of {dimension.size}{where}"


def effect_text(before: Outcome, after: Outcome) -> str:
    """Time and memory before and after."""
    return (
        f"{time_text(before.seconds)} -> {time_text(after.seconds)}, "
        f"{before.peak_bytes / 1e9:.3g} -> {after.peak_bytes / 1e9:.3g} GB"
    )


def time_text(seconds: float) -> str:
    """``1.2 ms``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def moves_text(problem: Problem) -> Iterator[str]:
    """Named dimensions and the moves over them, as people read them."""
    program = problem.folded.program
    count, folded = len(problem.folded.source.ops), len(program.ops)
    yield f"{count} ops, {folded} after folding what repeats"
    for dimension in problem.dimensions:
        places = [f"{program.names[v]}[{d}]" for v, d in dimension.arguments]
        shown = ", ".join(places[:4]) + (f", … ({len(places)})" if places[4:] else "")
        number, size = dimension.number, dimension.size
        yield f"dimension {number}: size {size}, in {dimension.values} values"
        yield f"    {shown or 'of no argument'}"
        if twice := dimension.meets:
            type_ = program.types[twice[0]]
            yield (
                f"    meets itself in {len(twice)} values, for example {type_}: "
                "one of the two can be tiled over an axis"
            )
    for move in problem.fixed:
        what = "" if move.dimension is None else f"dimension {move.dimension} of "
        yield f"over {move.axis}: tile {what}{move.subject}"
