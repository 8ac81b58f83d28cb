"""A path of moves as decisions with names and reasons, for the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from partir.partition.state import State
from partir.rules.nest import UNDECIDED
from partir.rules.traits import changes_form, is_light
from partir.search.problem import Outcome, Path, Problem
from partir.search.result.decision import Decision, agreed
from partir.search.space.moves import Move, Moves


def decisions(problem: Problem, path: Path, start: State) -> list[Decision]:
    """What the moves of a path do to the whole program, a decision each, or more."""
    return decided(problem, path, start)[0]


def decided(problem: Problem, path: Path, start: State) -> tuple[list[Decision], State]:
    """The decisions of a path, and the whole program's partition after them."""
    found: list[Decision] = []
    state, before = problem.start.copy(), problem.outcome(problem.start)
    whole = start
    for move in path:
        earlier = state.copy()
        move.apply(state)
        after = problem.outcome(state)
        one = _decision(problem, move, earlier, state, before, after)
        made, whole = agreed(problem.folded, one, whole, state)
        found += made
        before = after
    return _named_apart(found), whole


def _decision(
    problem: Problem,
    move: Move,
    earlier: State,
    state: State,
    before: Outcome,
    after: Outcome,
) -> Decision:
    folded, homes = problem.folded, earlier.homes[move.axis]
    tiles: dict[int, int] = {}
    taken: dict[int, int] = {}
    for value, dim in move.tiles:
        if homes[value] == UNDECIDED and state.homes[move.axis][value] == dim:
            taken.setdefault(value, dim)
    for value, dim in taken.items():
        tiles.update(dict.fromkeys(folded.members[value], dim))
    whole = [
        member
        for value in move.whole
        if homes[value] == UNDECIDED
        for member in folded.members[value]
    ]
    loops: dict[int, int] = {}
    first = 0
    for place, (node, factor) in enumerate(move.loops):
        number = move.fitting(earlier, node, factor)
        if not earlier.chosen[move.axis][node] and number is not None:
            loops.update(dict.fromkeys(folded.node_members(node), number))
        if place < move.first:
            first = len(loops)
    label = _label(problem.moves, move, state, taken)
    reason = f"{_subject(problem, move)}; {_effect(before, after)}"
    name = f"{label} over {move.axis}"
    made = Decision(move.axis, name, reason, tiles, tuple(whole), loops, first)
    return made.in_order(folded.source)


def _named_apart(found: list[Decision]) -> list[Decision]:
    """Number decisions that would have one name."""
    counts: dict[str, int] = {}
    made = []
    for one in found:
        counts[one.name] = counts.get(one.name, 0) + 1
        number = f" {counts[one.name]}" if counts[one.name] > 1 else ""
        made.append(replace(one, name=one.name + number))
    return made


# In words


def _label(moves: Moves, move: Move, state: State, taken: dict[int, int]) -> str:
    if move.loops:
        return "inputs and weights at once" if taken else "stuck ops"
    if move.whole:
        return "sharded optimizer state (ZeRO-2-like)"
    kept = [v for v in taken if v in moves.state_values]
    if not kept:
        return "split inputs" if taken else "split values inside"
    weights = [v for v in kept if v in moves.weights]
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


def _subject(problem: Problem, move: Move) -> str:
    """What is decided, in a few words."""
    if move.loops and not move.tiles:
        return f"{len(move.loops)} ops that propagation left"
    if move.name < 0:
        return move.group
    name = problem.names[move.name]
    names = problem.folded.program.names
    places = [f"{names[v]}[{d}]" for v, d in name.arguments if v in names]
    shown = ", ".join(places[:2]) + (", …" if len(places) > 2 else "")
    where = f" ({shown})" if shown else ""
    return f"{move.group} along the dimension of {name.size}{where}"


def _effect(before: Outcome, after: Outcome) -> str:
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


def actions_text(problem: Problem) -> Iterator[str]:
    """Named dimensions and the moves over them, as people read them."""
    program = problem.folded.program
    count, folded = len(problem.folded.source.ops), len(program.ops)
    yield f"{count} ops, {folded} after folding what repeats"
    for name in problem.names:
        places = [f"{program.names[v]}[{d}]" for v, d in name.arguments]
        shown = ", ".join(places[:4]) + (f", … ({len(places)})" if places[4:] else "")
        yield f"dimension {name.number}: size {name.size}, in {name.values} values"
        yield f"    {shown or 'of no argument'}"
        if name.meets:
            type_ = program.types[name.meets[0]]
            yield (
                f"    meets itself in {len(name.meets)} values, for example {type_}: "
                "one of the two can be tiled over an axis"
            )
    for move in problem.fixed:
        what = f"dimension {move.name} of " if move.name >= 0 else ""
        yield f"over {move.axis}: tile {what}{move.group}"
