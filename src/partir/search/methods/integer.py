"""An integer program over the moves, solved by HiGHS.

One binary variable per move. Logarithms of time and of peak memory are taken to be the
sum of what each move changes alone and of what each pair changes beyond that, all
measured by the simulator; products of variables are linearised. The logarithm of memory
is bounded by the limit, or least where no selection fits. A goal of the user's own only
judges the selections: the program itself knows time and memory.

What it can't say: the order of moves (it is always that of `Problem.fixed`), choices
where propagation is stuck, which depend on what came before, and what three moves do
that no two of them do. A move that changes nothing after another excludes it. So every
selection is evaluated as it is, ruled out, and the program solved again, until that has
gained nothing a few times or the budget ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from partir.search.goal import Outcome
from partir.search.methods.best import Best
from partir.search.methods.budget import Budget
from partir.search.methods.local import walked
from partir.search.methods.registry import search_method
from partir.search.problem import Path, Problem
from partir.search.space.move import Move

_MOVES = 24  # variables; the most promising moves
_MOST = 12  # moves in a row, as in the tree search
_IDLE = 5  # selections in a row that gained nothing
_SOLVE = 5.0  # seconds for one of them

Pair = tuple[int, int]


@dataclass
class _Model:
    """Logarithms of time and memory: of nothing, of moves, of pairs."""

    start: np.ndarray
    alone: list[np.ndarray] = field(default_factory=list)
    pairs: dict[Pair, np.ndarray] = field(default_factory=dict)
    excluded: list[Pair] = field(default_factory=list)


@search_method("integer")
def integer_program(problem: Problem, best: Best, budget: Budget, seed: int) -> None:
    """Measure moves and pairs, then solve, evaluate and solve again."""
    _IntegerProgram(problem, best).run(budget)


class _IntegerProgram:
    def __init__(self, problem: Problem, best: Best) -> None:
        self.problem, self.best = problem, best

    def run(self, budget: Budget) -> None:
        """Until nothing is gained any more, or the budget is spent."""
        moves = self._promising(budget)
        model = self._measured(moves, budget)
        if not moves:
            return
        tried: list[frozenset[int]] = [frozenset()]
        idle = 0
        while idle < _IDLE and budget.left(self.problem.evaluations):
            limit = math.log(max(self.problem.goal.memory_limit, 1.0))
            chosen = _solve(model, tried, limit, self.problem.goal.kind == "memory")
            if chosen is None:  # nothing fits: as little as possible
                chosen = _solve(model, tried, None, True)
            if chosen is None:
                break
            tried.append(chosen)
            path = tuple(moves[number] for number in sorted(chosen))
            before = self.best.path
            self.best.offer(*walked(self.problem, path))
            idle = 0 if self.best.path != before else idle + 1

    # Measuring

    def _promising(self, budget: Budget) -> list[Move]:
        """Moves that are good alone for time or for memory, in canonical order."""
        alone: list[tuple[Move, Outcome]] = []
        for move in self.problem.fixed:
            if not budget.left(self.problem.evaluations):
                break
            alone.append((move, self._outcome((move,))))
        ranks = [
            {id(m): place for place, (m, _) in enumerate(sorted(alone, key=key))}
            for key in (lambda one: one[1].seconds, lambda one: one[1].peak_bytes)
        ]
        best = sorted(alone, key=lambda one: min(rank[id(one[0])] for rank in ranks))
        promising = {id(move) for move, _ in best[:_MOVES]}
        return [move for move, _ in alone if id(move) in promising]

    def _measured(self, moves: list[Move], budget: Budget) -> _Model:
        """What moves change alone and in pairs; pairs without budget change nothing."""
        model = _Model(_logs(self.problem.outcome(self.problem.start)))
        alone = [_logs(self._outcome((move,))) - model.start for move in moves]
        model.alone = alone
        for one, other in combinations(range(len(moves)), 2):
            if not budget.left(self.problem.evaluations):
                break
            path = moves[one], moves[other]
            if self.problem.follow(path[:1], path[1]) is None:
                model.excluded.append((one, other))
                continue
            both = _logs(self._outcome(path)) - model.start
            model.pairs[one, other] = both - alone[one] - alone[other]
        return model

    def _outcome(self, path: Path) -> Outcome:
        outcome = self.problem.outcome(self.problem.state(path))
        self.best.offer(path, outcome)
        return outcome


def _logs(outcome: Outcome) -> np.ndarray:
    return np.log([max(outcome.seconds, 1e-12), max(outcome.peak_bytes, 1)])


# The program


def _solve(
    model: _Model,
    tried: Iterable[frozenset[int]],
    limit: float | None,
    memory: bool,
) -> frozenset[int] | None:
    """The selection not tried yet with the least time, or memory, within a limit."""
    from scipy.optimize import Bounds, milp  # a second to import

    moves, pairs = len(model.alone), list(model.pairs)
    costs = np.array([*model.alone, *model.pairs.values()])  # rows: time, memory
    rows = _Constraints(len(costs))
    for number, (one, other) in enumerate(pairs, moves):
        rows.add({number: 1, one: -1}, high=0)  # a product: at most either factor,
        rows.add({number: 1, other: -1}, high=0)
        rows.add({one: 1, other: 1, number: -1}, high=1)  # and 1 where both are
    for one, other in model.excluded:
        rows.add({one: 1, other: 1}, high=1)
    rows.add(dict.fromkeys(range(moves), 1), high=_MOST)
    for chosen in tried:
        signs = {n: -1 if n in chosen else 1 for n in range(moves)}
        rows.add(signs, low=1 - len(chosen))
    if limit is not None:
        rows.add(dict(enumerate(costs[:, 1])), high=limit - model.start[1])
    integral = np.array([1] * moves + [0] * len(pairs))
    solution = milp(
        costs[:, int(memory)],
        integrality=integral,
        bounds=Bounds(0, 1),
        constraints=rows.constraint(),
        options={"time_limit": _SOLVE},
    )
    if solution.x is None:
        return None
    return frozenset(int(n) for n in np.flatnonzero(solution.x[:moves] > 0.5))


class _Constraints:
    """Linear constraints, one row each."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(
        self, row: Mapping[int, float], low: float = -np.inf, high: float = np.inf
    ) -> None:
        here = len(self.low)
        self.entries += [(here, column, value) for column, value in row.items()]
        self.low.append(low)
        self.high.append(high)

    def constraint(self) -> Any:
        from scipy.optimize import LinearConstraint
        from scipy.sparse import coo_array

        places, columns, values = zip(*self.entries, strict=True)
        shape = (len(self.low), self.columns)
        matrix = coo_array((values, (places, columns)), shape).tocsr()
        return LinearConstraint(matrix, self.low, self.high)
