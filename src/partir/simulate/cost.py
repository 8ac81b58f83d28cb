"""`Cost`: figures that add along a program and scale with a loop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What some kernels cost on one device.

    `compute_seconds` and `communication_seconds` are the times of kernels and of
    collectives, one after another. Costs add, and scale with a number of iterations.

    Example:
        >>> one = Cost(flops=8.0, compute_seconds=0.5)
        >>> (one + one * 2).compute_seconds
        1.5
    """

    flops: float = 0.0
    transcendentals: float = 0.0
    memory_bytes: float = 0.0
    link_bytes: float = 0.0
    compute_seconds: float = 0.0
    communication_seconds: float = 0.0
    kernels: float = 0.0
    collectives: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        """Both."""
        return Cost(
            flops=self.flops + other.flops,
            transcendentals=self.transcendentals + other.transcendentals,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            link_bytes=self.link_bytes + other.link_bytes,
            compute_seconds=self.compute_seconds + other.compute_seconds,
            communication_seconds=self.communication_seconds
            + other.communication_seconds,
            kernels=self.kernels + other.kernels,
            collectives=self.collectives + other.collectives,
        )

    def __mul__(self, times: float) -> Cost:
        """So many times over."""
        return Cost(
            flops=self.flops * times,
            transcendentals=self.transcendentals * times,
            memory_bytes=self.memory_bytes * times,
            link_bytes=self.link_bytes * times,
            compute_seconds=self.compute_seconds * times,
            communication_seconds=self.communication_seconds * times,
            kernels=self.kernels * times,
            collectives=self.collectives * times,
        )

    __rmul__ = __mul__

    @property
    def seconds(self) -> float:
        """Everything one after another, nothing overlapped."""
        return self.compute_seconds + self.communication_seconds


NOTHING = Cost()
