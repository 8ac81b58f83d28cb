"""Local search: single moves of a path left out, added, exchanged or put elsewhere."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from partir.search.goal import Outcome
from partir.search.methods.best import Best
from partir.search.methods.budget import Budget
from partir.search.problem import Path, Problem
from partir.search.space.move import Move

_MOST = 80  # neighbours by exchange that are tried in a row without a gain
_STAY = 0.6  # of the moves when a path is shaken
_NOTHING = 1e-3  # of the score: what a move has to gain to be worth reading


def improve(problem: Problem, best: Best, budget: Budget, order: random.Random) -> None:
    """Climb from the best path, as long as that gains."""
    climb(problem, best, best.path, budget, order)


def climb(
    problem: Problem, best: Best, path: Path, budget: Budget, order: random.Random
) -> None:
    """Change single moves of a path while that gains; what is met is offered."""
    path, outcome = walked(problem, path)
    best.offer(path, outcome)
    improved = True
    while improved and budget.left(problem.evaluations):
        improved = False
        for other in _neighbours(problem, path, order):
            if not budget.left(problem.evaluations):
                return
            nearby, reached = walked(problem, other)
            best.offer(nearby, reached)
            shorter = reached.score == outcome.score and len(nearby) < len(path)
            if reached.score > outcome.score * (1 + 1e-9) or shorter:
                path, outcome, improved = nearby, reached, True
                break


def shaken(path: Path, order: random.Random) -> Path:
    """Some moves of a path, one of them at another place: where to climb from anew."""
    some = [move for move in path if order.random() < _STAY]
    if len(some) > 1:
        moved = some.pop(order.randrange(len(some)))
        some.insert(order.randrange(len(some) + 1), moved)
    return tuple(some)


def _neighbours(problem: Problem, path: Path, order: random.Random) -> Iterator[Path]:
    """One move less, another order, one more; then some of what else is a step away."""
    count = len(path)
    for place in range(count):
        yield path[:place] + path[place + 1 :]
    turned = [(here, there) for here in range(count) for there in range(count)]
    order.shuffle(turned)
    for here, there in turned:
        rest = path[:here] + path[here + 1 :]
        if here != there and here != there + 1:
            yield (*rest[:there], path[here], *rest[there:])
    more = problem.candidates(path)
    order.shuffle(more)
    for move in more:
        yield (*path, move)
    for alike in _on_all_axes(problem.fixed):
        yield (*path, *alike)
    others = [
        (*path[:place], move, *path[place + skipped :])
        for place in range(count)
        for move in problem.fixed
        for skipped in (0, 1)
        if move is not path[place]
    ]
    yield from order.sample(others, min(_MOST, len(others)))


def _on_all_axes(moves: Iterable[Move]) -> Iterable[Path]:
    """The same over each axis: together they may gain where one alone does not."""
    alike: dict[tuple[str, int | None], Path] = {}
    for move in moves:
        key = move.subject, move.dimension
        alike[key] = (*alike.get(key, ()), move)
    return [path for path in alike.values() if len(path) > 1]


def walked(problem: Problem, path: Path) -> tuple[Path, Outcome]:
    """The path without moves that change nothing, and its outcome."""
    effective: Path = ()
    for move in path:
        if problem.follow(effective, move) is not None:
            effective = (*effective, move)
    return effective, problem.outcome(problem.state(effective))


def is_worth_reading(outcome: Outcome, other: Outcome) -> bool:
    """Whether one is so much better than the other that a schedule should say it."""
    return outcome.score * (1 - _NOTHING) > other.score


def trimmed(problem: Problem, path: Path, outcome: Outcome) -> tuple[Path, Outcome]:
    """The path without moves that gain next to nothing: a schedule is to be read."""
    least = outcome.score * (1 - _NOTHING)
    for place in reversed(range(len(path))):
        if place >= len(path) or len(path) == 1:  # several fell away at once
            continue
        shorter, reached = walked(problem, path[:place] + path[place + 1 :])
        if reached.score >= least and len(shorter) < len(path):
            path, outcome = shorter, reached
    return path, outcome
