"""`Choose`: loops for ops that propagation left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from partir.errors import PartitionError
from partir.partition.actions import Partition
from partir.partition.patterns import ByPattern
from partir.tactics.manual import ManualPartition, Wish


@dataclass(frozen=True)
class Choose:
    """A tactic that puts ops into a loop over one of their factors.

    Args:
        ops: addresses of results (``%attend/dot_general/0``, or a pattern) to the
            number of a factor, as `Partition.conflicts` shows them.
        axis: the mesh axis.
        name: shown in tables.
        inputs: what goes with it, as `ManualPartition` takes it.
        reason: why, for whoever reads the schedule.
        expect: what must hold after it, as `partition` takes it.

    Example:
        >>> Choose({"%attend/dot_general/0": 1}, axis="M", name="keys gathered").name
        'keys gathered'
    """

    ops: Mapping[str, int]
    axis: str
    name: str = "choose"
    inputs: ByPattern[Wish] = field(default_factory=dict)
    reason: str = field(default="", compare=False)
    expect: Mapping[str, int | float | str] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check what was asked for."""
        whole = isinstance(self.ops, Mapping) and all(
            isinstance(factor, int) and not isinstance(factor, bool)
            for factor in self.ops.values()
        )
        if not whole:
            raise PartitionError(
                "Choose: ops maps addresses to numbers of factors, for example "
                f'{{"%attend/dot_general/0": 1}}; got {self.ops!r}'
            )
        ManualPartition(self.inputs, self.axis, self.name)  # checks these

    def apply(self, partition: Partition) -> None:
        """Choose; what has such a loop already is left alone."""
        partition.require_axis(self.axis)
        producers = partition.program.producers
        for pattern, factor in self.ops.items():
            values = partition.values(pattern)
            if not values:
                raise PartitionError(
                    f'tactic "{self.name}": no inner value matches "{pattern}"; '
                    f"nearest: {partition.names.nearest(pattern)}"
                )
            numbers = [v.number for v in values if v.number in producers]
            for node in dict.fromkeys(producers[number] for number in numbers):
                if not partition.state.chosen[self.axis][node]:
                    address = partition.names.node_name(partition.state.graph, node)
                    partition.choose(address, factor, self.axis)
        ManualPartition(self.inputs, self.axis, self.name).apply(partition)
