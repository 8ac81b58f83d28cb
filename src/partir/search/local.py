"""Local search: single moves of a path left out, added or exchanged."""

from __future__ import annotations

from collections.abc import Iterator

from partir.search.best import Best, Budget
from partir.search.problem import Outcome, Path, Problem


def improve(problem: Problem, best: Best, budget: Budget) -> None:
    """Leave out, add and exchange single moves of the best path while that gains."""
    improved = True
    while improved and budget.left(problem.evaluations):
        improved = False
        for path in _neighbours(problem, best.path):
            if not budget.left(problem.evaluations):
                return
            before = best.path
            best.offer(*walked(problem, path))
            if best.path != before:
                improved = True
                break


def _neighbours(problem: Problem, path: Path) -> Iterator[Path]:
    for place in range(len(path)):
        yield path[:place] + path[place + 1 :]
    moves = problem.candidates(path)
    for move in moves:
        yield (*path, move)
    for place in reversed(range(len(path))):
        for move in problem.fixed:
            if move is not path[place]:
                yield (*path[:place], move, *path[place + 1 :])
    for place in range(len(path)):
        for move in problem.fixed:
            yield (*path[:place], move, *path[place:])


def walked(problem: Problem, path: Path) -> tuple[Path, Outcome]:
    """The path without moves that change nothing, and its outcome."""
    kept: Path = ()
    for move in path:
        if problem.follow(kept, move) is not None:
            kept = (*kept, move)
    return kept, problem.outcome(problem.state(kept))
