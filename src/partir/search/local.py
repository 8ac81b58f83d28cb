"""Local search: single moves of a path left out, added or exchanged."""

from __future__ import annotations

import random

from partir.search.best import Best, Budget
from partir.search.problem import Outcome, Path, Problem

_MOST = 80  # neighbours that are tried in a row without a gain


def improve(problem: Problem, best: Best, budget: Budget, order: random.Random) -> None:
    """Leave out, add and exchange single moves of the best path while that gains."""
    improved = True
    while improved and budget.left(problem.evaluations):
        improved = False
        for path in _neighbours(problem, best.path, order):
            if not budget.left(problem.evaluations):
                return
            before = best.path
            best.offer(*walked(problem, path))
            if best.path != before:
                improved = True
                break


def _neighbours(problem: Problem, path: Path, order: random.Random) -> list[Path]:
    """One move less, one more at the end; then some of what else is one step away."""
    fewer = [path[:place] + path[place + 1 :] for place in range(len(path))]
    more = [(*path, move) for move in problem.candidates(path)]
    others = [
        (*path[:place], move, *path[place + skipped :])
        for place in range(len(path))
        for move in problem.fixed
        for skipped in (0, 1)
        if move is not path[place]
    ]
    return [*fewer, *more, *order.sample(others, min(_MOST, len(others)))]


def walked(problem: Problem, path: Path) -> tuple[Path, Outcome]:
    """The path without moves that change nothing, and its outcome."""
    kept: Path = ()
    for move in path:
        if problem.follow(kept, move) is not None:
            kept = (*kept, move)
    return kept, problem.outcome(problem.state(kept))
