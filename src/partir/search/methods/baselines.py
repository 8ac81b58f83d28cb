"""Simpler searches to compare the tree search with. Only `random_walks` is random."""

from __future__ import annotations

import random
from collections.abc import Iterator

from partir.search.goal import Outcome
from partir.search.methods.best import Best
from partir.search.methods.budget import Budget
from partir.search.methods.registry import search_method
from partir.search.problem import Path, Problem
from partir.search.space.move import Move

_DEPTH = 12  # moves in a row, as in the tree search
_WIDTH = 8  # partitions that a beam goes on from
_IDLE = 200  # walks without anything new


@search_method("greedy")
def greedy(problem: Problem, best: Best, budget: Budget, seed: int) -> None:
    """The best next move, again and again, while that gains."""
    path: Path | None = None
    while path != best.path and len(best.path) < _DEPTH:
        path = best.path
        for longer, outcome in _after(problem, path, budget):
            best.offer(longer, outcome)


@search_method("random")
def random_walks(problem: Problem, best: Best, budget: Budget, seed: int) -> None:
    """Random walks from the start, until the budget ends or they meet nothing new."""
    order = random.Random(seed)
    idle = 0
    while idle < _IDLE and budget.left(problem.evaluations):
        before = problem.evaluations
        _walk(problem, best, budget, order)
        idle = idle + 1 if problem.evaluations == before else 0


def _walk(problem: Problem, best: Best, budget: Budget, order: random.Random) -> None:
    """One of them, as long as chance has it."""
    path: Path = ()
    for _ in range(order.randint(1, _DEPTH)):
        moves = problem.candidates(path)
        order.shuffle(moves)
        step = next(_steps(problem, path, moves, budget), None)
        if step is None:
            return
        path, outcome = step
        best.offer(path, outcome)


@search_method("beam")
def beam(problem: Problem, best: Best, budget: Budget, seed: int) -> None:
    """The best few partitions after one move, after two, and so on.

    Ends when nothing is new, twice nothing was gained, or no budget is left.
    """
    seen = {_key(problem, ())}
    paths: list[Path] = [()]
    idle = 0
    while paths and idle < 2 and len(paths[0]) < _DEPTH:
        before = best.path
        level: list[tuple[Path, Outcome]] = []
        for path in paths:
            for longer, outcome in _after(problem, path, budget):
                key = _key(problem, longer)
                if key not in seen:
                    seen.add(key)
                    best.offer(longer, outcome)
                    level.append((longer, outcome))
        level.sort(key=lambda one: -one[1].score)  # stable: ties as they came
        paths = [path for path, _ in level[:_WIDTH]]
        idle = 0 if best.path != before else idle + 1


@search_method("exhaustive")
def exhaustive(problem: Problem, best: Best, budget: Budget, seed: int) -> None:
    """Every partition that moves lead to, as far as the budget goes."""
    Exhaustive(problem, best).run(budget)


class Exhaustive:
    """Every partition that sequences of moves up to a depth lead to.

    Partitions that are reached in several ways are visited once. `complete` says
    whether there was budget for all of them: only then is the answer exact.
    """

    def __init__(self, problem: Problem, best: Best, *, depth: int = _DEPTH) -> None:
        """Nothing is tried yet."""
        self.problem, self.best, self.depth = problem, best, depth
        self.complete = False
        self.count = 1  # partitions visited

    def run(self, budget: Budget) -> None:
        """Shorter sequences first, so that every partition has its shortest one."""
        self.complete, self.count = False, 1
        seen = {_key(self.problem, ())}
        level: list[Path] = [()]
        for _ in range(self.depth):
            deeper: list[Path] = []
            for path in level:
                for longer, outcome in _after(self.problem, path, budget):
                    key = _key(self.problem, longer)
                    if key not in seen:
                        seen.add(key)
                        self.best.offer(longer, outcome)
                        deeper.append(longer)
                self.count = len(seen)
                if not budget.left(self.problem.evaluations):
                    return
            level = deeper
        self.complete = True


def _after(
    problem: Problem, path: Path, budget: Budget
) -> Iterator[tuple[Path, Outcome]]:
    """One more move: paths that change something, with their outcomes."""
    return _steps(problem, path, problem.candidates(path), budget)


def _steps(
    problem: Problem, path: Path, moves: list[Move], budget: Budget
) -> Iterator[tuple[Path, Outcome]]:
    for move in moves:
        if not budget.left(problem.evaluations):
            return
        state = problem.follow(path, move)
        if state is not None:
            yield (*path, move), problem.outcome(state)


def _key(problem: Problem, path: Path) -> int:
    return hash(problem.fingerprint(problem.state(path)))
