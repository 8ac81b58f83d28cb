"""What is wanted of a partition, and how good one is by that measure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Outcome:
    """Time and memory of one partition, and how good that is, from 0 to 1."""

    seconds: float
    peak_bytes: int
    fits: bool
    score: float


class Costs(Protocol):
    """What is judged: an estimate of the folded or of the whole program."""

    @property
    def seconds(self) -> float:
        """Time of a step."""
        ...

    @property
    def peak_bytes(self) -> int:
        """Most memory at a time."""
        ...


@dataclass(frozen=True)
class Goal:
    """What is wanted: first within the memory limit, then little time or memory."""

    memory_limit: float
    kind: str | Callable[[Any], float] = "time"
    ideal_seconds: float = 1e-9

    def outcome(self, estimate: Costs) -> Outcome:
        """Judge an estimate."""
        seconds, peak = estimate.seconds, estimate.peak_bytes
        fits = peak <= self.memory_limit
        ideal = min(self.ideal_seconds / max(seconds, 1e-12), 1.0)
        if callable(self.kind):
            cost = float(self.kind(estimate))
            quality = 1 / (1 + cost) if cost >= 0 else 1.0
        elif self.kind == "memory":
            quality = 0.99 / (1 + peak / max(self.memory_limit, 1.0)) + 0.01 * ideal
        else:
            quality = ideal
        if fits:
            return Outcome(seconds, peak, True, 0.5 + 0.5 * quality)
        room = self.memory_limit / max(peak, 1)
        return Outcome(seconds, peak, False, 0.5 * math.sqrt(room * ideal))
