"""`Budget`: how much a search may spend."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be spent: evaluations, seconds, or both."""

    evaluations: int | None = None
    seconds: float | None = None
    started: float = field(default_factory=time.monotonic)

    def left(self, evaluations: int) -> bool:
        """Whether there is more to spend."""
        if self.evaluations is not None and evaluations >= self.evaluations:
            return False
        return self.seconds is None or time.monotonic() - self.started < self.seconds
