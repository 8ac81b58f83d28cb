"""Simpler searches to compare the tree search with, in its interface.

`Search(problem, seed, listener).run(budget)` returns the best; it is also there as
`.best` while the search runs, so that it may be interrupted. Only `Random` is random.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from partir.search.methods.best import Best, Budget, Listener
from partir.search.problem import Outcome, Path, Problem
from partir.search.space.moves import Move

_DEPTH = 12  # moves in a row, as in the tree search


class Greedy:
    """The best next move, again and again, while that gains."""

    def __init__(
        self, problem: Problem, seed: int = 0, listener: Listener | None = None
    ) -> None:
        """Nothing is tried yet. The seed changes nothing."""
        self.problem = problem
        self.best = Best(problem, listener)

    def run(self, budget: Budget) -> Best:
        """Walk until nothing gains or the budget is spent."""
        path: Path | None = None
        while path != self.best.path and len(self.best.path) < _DEPTH:
            path = self.best.path
            for longer, outcome in _after(self.problem, path, budget):
                self.best.offer(longer, outcome)
        return self.best


class Random:
    """Random walks from the start, each as long as chance has it."""

    def __init__(
        self, problem: Problem, seed: int = 0, listener: Listener | None = None
    ) -> None:
        """Nothing is tried yet."""
        self.problem = problem
        self.random = random.Random(seed)
        self.best = Best(problem, listener)

    def run(self, budget: Budget) -> Best:
        """Walk until the budget is spent, or walks meet nothing new any more."""
        idle = 0
        while idle < _IDLE and budget.left(self.problem.evaluations):
            before = self.problem.evaluations
            self._walk(budget)
            idle = idle + 1 if self.problem.evaluations == before else 0
        return self.best

    def _walk(self, budget: Budget) -> None:
        path: Path = ()
        for _ in range(self.random.randint(1, _DEPTH)):
            moves = self.problem.candidates(path)
            self.random.shuffle(moves)
            step = next(_steps(self.problem, path, moves, budget), None)
            if step is None:
                return
            path, outcome = step
            self.best.offer(path, outcome)


_IDLE = 200  # walks without anything new


class Beam:
    """The best few partitions after one move, after two, and so on."""

    def __init__(
        self,
        problem: Problem,
        seed: int = 0,
        listener: Listener | None = None,
        *,
        width: int = 8,
    ) -> None:
        """Nothing is tried yet. The seed changes nothing."""
        self.problem, self.width = problem, width
        self.best = Best(problem, listener)
        self._seen = {_key(problem, ())}

    def run(self, budget: Budget) -> Best:
        """Go deeper until nothing is new, twice nothing gained, or no budget left."""
        beam: list[Path] = [()]
        idle = 0
        while beam and idle < 2 and len(beam[0]) < _DEPTH:
            before = self.best.path
            level: list[tuple[Path, Outcome]] = []
            for path in beam:
                for longer, outcome in _after(self.problem, path, budget):
                    key = _key(self.problem, longer)
                    if key not in self._seen:
                        self._seen.add(key)
                        self.best.offer(longer, outcome)
                        level.append((longer, outcome))
            level.sort(key=lambda one: -one[1].score)  # stable: ties as they came
            beam = [path for path, _ in level[: self.width]]
            idle = 0 if self.best.path != before else idle + 1
        return self.best


class Exhaustive:
    """Every partition that sequences of moves up to a depth lead to.

    Partitions that are reached in several ways are visited once. `complete` says
    whether there was budget for all of them: only then is the answer exact.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int = 0,
        listener: Listener | None = None,
        *,
        depth: int = _DEPTH,
    ) -> None:
        """Nothing is tried yet. The seed changes nothing."""
        self.problem, self.depth = problem, depth
        self.best = Best(problem, listener)
        self.complete = False
        self.count = 1  # partitions visited

    def run(self, budget: Budget) -> Best:
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
                    return self.best
            level = deeper
        self.complete = True
        return self.best


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
