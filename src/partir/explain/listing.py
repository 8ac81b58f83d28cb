"""`CollectiveUse`: every collective of a partition, with its name and cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partir.explain.answer import place
from partir.explain.evidence import Evidence, ExplainedStep
from partir.explain.moves import why_moved
from partir.explain.prices import seconds_of
from partir.ir.garbage import collection_paused
from partir.ir.source import Location
from partir.spmd.manual_collectives import manual_collectives
from partir.spmd.program import Collective, Compute, NamedCollective, sent_bytes


@dataclass(frozen=True, slots=True)
class CollectiveUse:
    """A collective: what it moves, over which axes, why, for whom, what it costs.

    `bytes` are what a device sends in a step, in `times` calls; `seconds` is None
    without a device. `cause` is as in `Explanation.cause`.
    """

    id: str
    kind: str
    axes: tuple[str, ...]
    value: str
    cause: str
    tactic: str | None
    producer: str | None
    consumer: str | None
    source: Location
    bytes: int
    times: int
    seconds: float | None

    def __str__(self) -> str:
        """One line."""
        axes = ",".join(self.axes)
        since = f' since "{self.tactic}"' if self.tactic else ""
        return (
            f"{self.id} {{{axes}}} {self.value}: {self.bytes:,} B, {self.cause}{since} "
            f"({self.source})"
        )

    def to_json(self) -> dict[str, Any]:
        """As data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        return {**data, "axes": list(self.axes), "source": place(self.source)}


@collection_paused
def collective_list(steps: Sequence[ExplainedStep]) -> tuple[CollectiveUse, ...]:
    """All of them, in program order."""
    record = Evidence(steps)
    known = record.step.setting.device is not None
    seconds = seconds_of(record) if known else None
    return tuple(_use(record, one, seconds) for one in record.spmd.named_collectives)


def _use(
    record: Evidence, one: NamedCollective, seconds: dict[int, float] | None
) -> CollectiveUse:
    if isinstance(one.op, Compute):
        return _written(record, one, one.op)
    op = one.op
    assert isinstance(op, Collective)
    finding, cause = why_moved(record, op), op.cause
    return CollectiveUse(
        one.id,
        one.id.partition("#")[0],
        op.axes,
        record.names.name(cause.value),
        finding.cause,
        finding.tactic,
        None if cause.producer is None else record.node_name(cause.producer),
        None if cause.consumer is None else record.node_name(cause.consumer),
        record.collective_source(op),
        one.trips * record.spmd.bytes_sent(op),
        one.trips,
        None if seconds is None else seconds.get(op.result, 0.0),
    )


def _written(record: Evidence, one: NamedCollective, op: Compute) -> CollectiveUse:
    move = list(manual_collectives(op.nest.signature))[one.number]
    size, times = len(move.devices) or record.state.mesh.size, one.trips * move.times
    sent = times * sent_bytes(move.kind, move.bytes, size)
    name, source = record.node_name(op.node), record.node_source(op.node)
    return CollectiveUse(
        one.id,
        move.kind,
        (),
        name,
        "written",
        None,
        name,
        name,
        source,
        sent,
        times,
        None,
    )
