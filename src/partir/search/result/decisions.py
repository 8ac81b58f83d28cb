"""A path of moves as decisions for the whole program, with names and reasons."""

from __future__ import annotations

from dataclasses import replace

from partir.partition.state import State
from partir.rules.nest import UNDECIDED
from partir.search.problem import Path, Problem
from partir.search.result.alike_layers import alike_in_all_layers
from partir.search.result.decision import Decision
from partir.search.result.wording import effect_text, move_label, subject_text
from partir.search.space.move import Move, is_open


def decisions(problem: Problem, path: Path, start: State) -> list[Decision]:
    """What the moves of a path do to the whole program, a decision each, or more."""
    return decisions_and_state(problem, path, start)[0]


def decisions_and_state(
    problem: Problem, path: Path, start: State
) -> tuple[list[Decision], State]:
    """The decisions of a path, and the whole program's partition after them."""
    taken: list[Decision] = []
    state, before = problem.start.copy(), problem.outcome(problem.start)
    whole = start
    for move in path:
        earlier = state.copy()
        move.apply(state)
        after = problem.outcome(state)
        tiles = _taken_tiles(move, earlier, state)
        label = move_label(problem.moves, move, state, tiles)
        reason = f"{subject_text(problem, move)}; {effect_text(before, after)}"
        decision = _decision(problem, move, earlier, tiles)
        named = replace(decision, name=f"{label} over {move.axis}", reason=reason)
        completed, whole = alike_in_all_layers(problem.folded, named, whole, state)
        taken += completed
        before = after
    return _named_apart(taken), whole


def _taken_tiles(move: Move, earlier: State, state: State) -> dict[int, int]:
    """Tiles of a move that were open before it and are as it says after it."""
    before, after = earlier.homes[move.axis], state.homes[move.axis]
    tiles: dict[int, int] = {}
    for value, dim in move.tiles:
        if before[value] == UNDECIDED and after[value] == dim:
            tiles.setdefault(value, dim)
    return tiles


def _decision(
    problem: Problem, move: Move, earlier: State, taken: dict[int, int]
) -> Decision:
    """The move for all that the folded program's values and nodes stand for."""
    folded, homes = problem.folded, earlier.homes[move.axis]
    tiles: dict[int, int] = {}
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
    kept = [
        member
        for value in move.kept
        if is_open(earlier, value, move.axis)
        for member in folded.members[value]
    ]
    decision = Decision(
        move.axis, "", "", tiles, tuple(whole), loops, first, tuple(kept)
    )
    return decision.in_order(folded.source)


def _named_apart(decisions: list[Decision]) -> list[Decision]:
    """Number decisions that would have one name."""
    counts: dict[str, int] = {}
    named = []
    for one in decisions:
        counts[one.name] = counts.get(one.name, 0) + 1
        number = f" {counts[one.name]}" if counts[one.name] > 1 else ""
        named.append(replace(one, name=one.name + number))
    return named
