"""`ManualPartition`: tile named values over one axis."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from partir.errors import PartitionError, nearest
from partir.partition.actions import Partition
from partir.partition.patterns import Optional, Pattern, matcher, pattern_text
from partir.partition.values import Value


class Placement(enum.Enum):
    """What a tactic can say of a value other than a dimension."""

    FIRST_DIVISIBLE_DIM = "the first dimension that divides"
    REPLICATED = "whole on this axis"
    UNKNOWN = "nothing"

    def __repr__(self) -> str:
        """As users write it."""
        return f"partir.{self.name}"


FIRST_DIVISIBLE_DIM = Placement.FIRST_DIVISIBLE_DIM
REPLICATED = Placement.REPLICATED
UNKNOWN = Placement.UNKNOWN

Wish = int | Placement | Callable[[str, tuple[int, ...], str], Any]


@dataclass(frozen=True)
class ManualPartition:
    """A tactic that tiles the values whose names match over one mesh axis.

    Args:
        inputs: patterns over names of arguments and tags (or ``%`` addresses) to a
            dimension, FIRST_DIVISIBLE_DIM, REPLICATED, UNKNOWN, or a callable
            ``(name, shape, dtype)`` that returns one of these. Where several patterns
            match a name, the last one counts.
        axis: the mesh axis.
        name: shown in tables; by default made of the axis.
        outputs: the same for results, ``out/…``.

    Example:
        >>> ManualPartition({"x": 0, "y": 0}, axis="B", name="BP").name
        'BP'
    """

    inputs: Mapping[Any, Wish]
    axis: str
    name: str = ""
    outputs: Mapping[Any, Wish] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the mappings; fill in the name."""
        for which, given in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not isinstance(given, Mapping):
                raise PartitionError(
                    f"ManualPartition: {which} maps patterns to dimensions, for "
                    f'example {{"params/*/w1": 1}}; got {given!r}'
                )
            for pattern in given:
                matcher(pattern)
        if not isinstance(self.axis, str):
            raise PartitionError(f"ManualPartition: axis is a name, got {self.axis!r}")
        if not self.name:
            object.__setattr__(self, "name", f"manual over {self.axis}")

    def apply(self, partition: Partition) -> None:
        """Take the actions; the schedule propagates them."""
        partition.state.require_axis(self.axis)
        for value, wish in self._wishes(partition, self.inputs, outputs=False):
            self._act(partition, value, wish)
        for value, wish in self._wishes(partition, self.outputs, outputs=True):
            self._act(partition, value, wish)

    def _wishes(
        self, partition: Partition, given: Mapping[Pattern, Wish], outputs: bool
    ) -> list[tuple[Value, Wish]]:
        wishes: dict[int, tuple[Value, Wish]] = {}
        for pattern, wish in given.items():
            look = partition.results if outputs else partition.values
            found = look(pattern)
            if not found and not isinstance(pattern, Optional):
                raise self._nothing(partition, pattern, outputs)
            for value in found:
                wishes[value.number] = (value, wish)
        return list(wishes.values())

    def _nothing(
        self, partition: Partition, pattern: Pattern, outputs: bool
    ) -> PartitionError:
        text = pattern_text(pattern)
        names = partition.names
        close = (
            nearest(text, [n for n, _, _ in names.results])
            if outputs
            else names.nearest(text)
        )
        kind = "result" if outputs else "argument or tag"
        return PartitionError(
            f'tactic "{self.name}": pattern "{text}" matches no {kind} of '
            f"{partition.program.name}; nearest names: {close}. If that is meant, "
            f'write partir.optional("{text}")'
        )

    def _act(self, partition: Partition, value: Value, wish: Any) -> None:
        if callable(wish) and not isinstance(wish, Placement):
            wish = wish(value.name, value.shape, value.dtype)
        if wish is UNKNOWN:
            return
        if wish is REPLICATED:
            partition.atomic(value, self.axis)
        elif wish is FIRST_DIVISIBLE_DIM:
            self._first_divisible(partition, value)
        elif isinstance(wish, int) and not isinstance(wish, bool):
            partition.tile(value, wish, self.axis)
        else:
            raise PartitionError(
                f'tactic "{self.name}" says {wish!r} for {value.name}: say a '
                "dimension, partir.FIRST_DIVISIBLE_DIM, partir.REPLICATED or "
                "partir.UNKNOWN"
            )

    def _first_divisible(self, partition: Partition, value: Value) -> None:
        size = partition.mesh[self.axis]
        stepped = partition.stepped_dims(value)
        for dim, left in enumerate(value.local_shape):
            if value.decided(self.axis):
                break
            if left % size == 0 and dim not in stepped:
                partition.tile(value, dim, self.axis)
                return
        partition.skip(value, self.axis)
