"""`Gathered`: what is gathered is kept, gathered again, or rests where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from partir.errors import PartitionError
from partir.partition.actions import GATHERED, Partition
from partir.partition.patterns import ByPattern, Optional, pattern_text
from partir.partition.values import Value


@dataclass(frozen=True)
class Gathered:
    """A tactic that says how long values live that are gathered for their readers.

    A parameter that is tiled over a data axis is gathered for the forward and again for
    the backward pass, so that it is not kept in between. ``"keep"`` gathers it once,
    which sends fewer bytes and takes more memory; ``"again"`` gathers it at every use.
    ``"rest"`` leaves it where it lies, and brings activations to its tiles, wherever
    that sends fewer bytes: with few tokens and wide weights.

    Args:
        values: patterns over names of arguments and tags (or ``%`` addresses) to
            ``"keep"``, ``"again"`` or ``"rest"``. Where several match a name, the last
            one counts.
        axis: the mesh axis that is gathered; values that it does not tile are left.
        name: shown in tables; by default made of the axis.
        reason: why, for whoever reads the schedule.
        expect: what must hold after it, as `partition` takes it.

    Example:
        >>> Gathered({"params/**": "keep", "params/embedding": "again"}, axis="B").name
        'gathered over B'
    """

    values: ByPattern[str]
    axis: str
    name: str = ""
    reason: str = field(default="", compare=False)
    expect: Mapping[str, int | float | str] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check what was asked for; fill in the name."""
        known = isinstance(self.values, Mapping) and all(
            how in GATHERED for how in self.values.values()
        )
        if not known:
            raise PartitionError(
                'Gathered: values maps patterns to "keep", "again" or "rest", for '
                f'example {{"params/**": "keep"}}; got {self.values!r}'
            )
        if not isinstance(self.axis, str):
            raise PartitionError(
                f"Gathered: axis is a mesh axis's name, got {self.axis!r}"
            )
        if not self.name:
            object.__setattr__(self, "name", f"gathered over {self.axis}")

    def apply(self, partition: Partition) -> None:
        """Say it of every value that matches and is tiled over the axis."""
        partition.require_axis(self.axis)
        wishes: dict[int, tuple[Value, str]] = {}
        for pattern, how in self.values.items():
            values = partition.values(pattern)
            if not values and not isinstance(pattern, Optional):
                text = pattern_text(pattern)
                raise PartitionError(
                    f'tactic "{self.name}": pattern "{text}" matches no argument or '
                    f"tag of {partition.program.name}; nearest names: "
                    f"{partition.names.nearest(text)}. If it may match nothing, write "
                    f'partir.optional("{text}")'
                )
            wishes.update((value.number, (value, how)) for value in values)
        for value, how in wishes.values():
            if any(self.axis in axes for axes in value.tiling):
                partition.gathered(value, self.axis, how)
            else:
                reason = f'not tiled over "{self.axis}": it is never gathered over it'
                partition.skip(value, self.axis, reason)
