"""What a partition under way asks of the lowering and of the simulator above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Counted(Protocol):
    """A lowered program, as far as a tactic sees it."""

    @property
    def collectives(self) -> dict[str, int]: ...  # noqa: D102


class Figures(Protocol):
    """What a tactic can ask of an estimate; `partir.Estimate` has more."""

    @property
    def seconds(self) -> float: ...  # noqa: D102

    @property
    def compute_seconds(self) -> float: ...  # noqa: D102

    @property
    def communication_seconds(self) -> float: ...  # noqa: D102

    @property
    def peak_bytes(self) -> int: ...  # noqa: D102

    @property
    def flops(self) -> float: ...  # noqa: D102

    @property
    def fits(self) -> bool: ...  # noqa: D102


class Simulator(Protocol):
    """The device that was said, which arguments are donated, and estimates."""

    @property
    def device(self) -> Any: ...  # noqa: D102

    @property
    def donated(self) -> Callable[[], Sequence[bool] | None]: ...  # noqa: D102

    def estimate(self, program: Any, device: Any = None) -> Figures: ...  # noqa: D102
