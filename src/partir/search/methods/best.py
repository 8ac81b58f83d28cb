"""The best that a search has met so far, and how far it is."""

from __future__ import annotations

import math
import time
from collections import Counter
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
_LEADERS = 6  # to go on from
_CONFIRMED = 8  # at most, on the whole program
_ALIKE = 2  # leaders of about the same memory: mostly one partition in other words
_SAME_MEMORY = 0.01  # relative difference of peaks up to which memory is the same
_APART = 0.04  # from which on it is another one, not the same with one move more


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
            kept = [*self._several(2 * _LEADERS), *self.to_confirm()]
            self._leaders = {one[1].score: one for one in kept}

    def leaders(self) -> list[tuple[Path, Outcome]]:
        """The best few, the best first, not all of them of about the same memory.

        The folded program is off by some thousandths of the time, and by about as much
        for all that need the same memory.
        """
        return self._several(_LEADERS)

    def to_confirm(self) -> list[tuple[Path, Outcome]]:
        """The best few, the best first, that differ in memory."""
        return self._several(_CONFIRMED, 1, _APART)

    def _several(
        self, count: int, most_alike: int = _ALIKE, same_memory: float = _SAME_MEMORY
    ) -> list[tuple[Path, Outcome]]:
        """So many of the best, a few of each memory."""
        chosen: list[tuple[Path, Outcome]] = []
        alike: Counter[int] = Counter()
        for score in sorted(self._leaders, reverse=True):
            path, outcome = self._leaders[score]
            memory = round(math.log(max(outcome.peak_bytes, 1)) / same_memory)
            alike[memory] += 1
            if alike[memory] <= most_alike and len(chosen) < count:
                chosen.append((path, outcome))
        return chosen

    def progress(self) -> Progress:
        """Where it stands."""
        return Progress(
            self._problem.evaluations,
            time.monotonic() - self._started,
            self.outcome,
            self.path,
        )
