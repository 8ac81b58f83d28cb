"""The best that a search has met so far, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from partir.search.goal import Outcome
from partir.search.problem import Path, Problem


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is."""

    evaluations: int
    seconds: float
    best: Outcome
    path: Path


Listener = Callable[[Progress], None]
_LEADERS = 6  # to be confirmed on the whole program


class Best:
    """The best path so far; shorter ones win ties."""

    def __init__(self, problem: Problem, listener: Listener | None = None) -> None:
        """Start with no move at all."""
        self.path: Path = ()
        self.outcome = problem.outcome(problem.start)
        self.history: list[Progress] = []
        self._leaders: dict[float, tuple[Path, Outcome]] = {
            self.outcome.score: ((), self.outcome)
        }
        self._problem, self._listener = problem, listener
        self._started = time.monotonic()

    def offer(self, path: Path, outcome: Outcome) -> None:
        """Keep it if it is better."""
        better = outcome.score > self.outcome.score * (1 + 1e-9)
        same = outcome.score >= self.outcome.score * (1 - 1e-9)
        if better or (same and len(path) < len(self.path)):
            self.path, self.outcome = path, outcome
            self.history.append(self.progress())
        self._lead(path, outcome)
        if self._listener is not None:
            self._listener(self.progress())

    def _lead(self, path: Path, outcome: Outcome) -> None:
        known = self._leaders.get(outcome.score)
        if known is None or len(path) < len(known[0]):
            self._leaders[outcome.score] = (path, outcome)
        if len(self._leaders) > 4 * _LEADERS:
            for score in sorted(self._leaders)[: -2 * _LEADERS]:
                del self._leaders[score]

    def leaders(self) -> list[tuple[Path, Outcome]]:
        """The best few, the best first."""
        scores = sorted(self._leaders, reverse=True)[:_LEADERS]
        return [self._leaders[score] for score in scores]

    def progress(self) -> Progress:
        """Where it stands."""
        return Progress(
            self._problem.evaluations,
            time.monotonic() - self._started,
            self.outcome,
            self.path,
        )
