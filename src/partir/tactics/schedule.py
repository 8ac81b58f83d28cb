"""`Schedule`: a sequence of tactics, and itself one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from partir.columns import html_page, html_text
from partir.errors import PartitionError
from partir.partition.actions import Partition
from partir.tactics.choose import Choose
from partir.tactics.gathered import Gathered
from partir.tactics.manual import ManualPartition
from partir.tactics.source import tactic_source


@runtime_checkable
class Tactic(Protocol):
    """Anything with ``apply(partition)``; users' own are equal citizens."""

    def apply(self, partition: Partition) -> None:
        """Take actions on the partition."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Tactics in order. A later one never undoes an earlier one.

    Example:
        >>> from partir import ManualPartition
        >>> BP = ManualPartition({"x": 0}, axis="B", name="BP")
        >>> Schedule([BP]).name
        'BP'
    """

    tactics: Sequence[Tactic]

    def __post_init__(self) -> None:
        """Check that every element is a tactic."""
        object.__setattr__(self, "tactics", tuple(self.tactics))
        for number, tactic in enumerate(self.tactics):
            if isinstance(tactic, (list, tuple)):
                raise PartitionError(
                    f"schedule element {number} is a {type(tactic).__name__}: to nest "
                    "schedules write partir.Schedule([...]), or join the lists"
                )
            if isinstance(tactic, type) or not is_tactic(tactic):
                raise PartitionError(
                    f"schedule element {number} is {tactic!r}, which is no tactic: a "
                    "tactic is an object with apply(partition), for example "
                    'partir.ManualPartition({"x": 0}, axis="B")'
                )

    @property
    def name(self) -> str:
        """The tactics' names joined by +."""
        return "+".join(tactic_name(tactic) for tactic in self.flat())

    def __str__(self) -> str:
        """The tactics one after another, manual ones as Python."""
        return "\n".join(map(tactic_text, self.flat()))

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return html_page(self.name, [html_text(str(self))])

    def flat(self) -> Iterator[Tactic]:
        """Tactics with nested schedules taken apart."""
        return self._flat(())

    def _flat(self, around: tuple[Schedule, ...]) -> Iterator[Tactic]:
        if any(outer is self for outer in around):
            raise PartitionError("a schedule is part of itself")
        for tactic in self.tactics:
            if isinstance(tactic, Schedule):
                yield from tactic._flat((*around, self))
            else:
                yield tactic

    def apply(self, partition: Partition) -> None:
        """Apply the tactics one after another, propagating after each."""
        for tactic in self.flat():
            tactic.apply(partition)
            partition.propagate()


def is_tactic(given: Any) -> bool:
    """Whether this can be applied."""
    return callable(getattr(given, "apply", None))


def as_schedule(given: Any) -> Schedule:
    """Accept a schedule, one tactic, or several of them in order."""
    if isinstance(given, Schedule):
        return given
    if is_tactic(given) and not isinstance(given, type):
        return Schedule([given])
    if isinstance(given, Iterable) and not isinstance(given, str | Mapping | set):
        return Schedule(list(given))
    raise PartitionError(
        f"a schedule is a list of tactics, got {type(given).__name__}: {given!r}"
    )


def tactic_text(tactic: Any) -> str:
    """A tactic as Python where that can be, else as it shows itself."""
    writable = isinstance(tactic, ManualPartition | Choose | Gathered)
    return tactic_source(tactic) if writable else str(tactic)


def tactic_name(tactic: Any) -> str:
    """The tactic's own name, else its class's."""
    name = getattr(tactic, "name", None)
    return name if isinstance(name, str) and name else type(tactic).__name__
