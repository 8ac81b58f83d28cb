"""What each source line, or each module, computes, sends and holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from partir.columns import aligned, bytes_text, html_table, seconds_text
from partir.errors import PartitionError
from partir.explain.evidence import Evidence, ExplainedStep
from partir.explain.listing import collective_list
from partir.ir.garbage import collection_paused
from partir.ir.source import Location, short
from partir.simulate.kernels.work import work_of
from partir.simulate.timeline import Event
from partir.spmd.program import Collective, Compute, Control

ARGUMENTS = "arguments"
Place = Callable[[Location], str]
_ORDERS = ("bytes", "seconds", "flops", "memory")


@dataclass
class Tally:
    """Of one place: collectives by kind, bytes sent, flops; with a device, more.

    `seconds` are those of computing and of communicating together, as if nothing were
    hidden; `memory` is what the place has made that is alive at the peak. Flops are the
    ops' own, without what fusions compute again.
    """

    where: str
    collectives: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    flops: float = 0.0
    seconds: float | None = None
    communication_seconds: float | None = None
    memory: int | None = None


class Tallies(tuple[Tally, ...]):
    """Tallies, the largest first; printed, a table."""

    def by(self, order: str) -> Tallies:
        """The same by "bytes", "seconds", "flops" or "memory", the largest first."""
        if order not in _ORDERS:
            raise PartitionError(f"tallies are ordered by {_ORDERS}, got {order!r}")
        return Tallies(sorted(self, key=lambda one: -(getattr(one, order) or 0)))

    def to_json(self) -> list[dict[str, Any]]:
        """As data."""
        return [asdict(tally) for tally in self]

    def __str__(self) -> str:
        """A row for each place."""
        return self.table()

    def table(self, width: int | None = None) -> str:
        """The same, folded to a width."""
        return "\n".join(aligned(self._rows, width))

    @property
    def _rows(self) -> list[list[str]]:
        head = ["where", "collectives", "sent/device", "time", "flops", "at the peak"]
        return [head, *map(_row, self)]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return html_table(self._rows)


def _row(tally: Tally) -> list[str]:
    counts = " ".join(f"{n} {kind}" for kind, n in tally.collectives.items())
    return [
        tally.where,
        counts or "-",
        bytes_text(tally.bytes),
        "-" if tally.seconds is None else seconds_text(tally.seconds),
        f"{tally.flops:.3g}",
        "-" if tally.memory is None else bytes_text(tally.memory),
    ]


def source_line(location: Location) -> str:
    """``model.py:42``."""
    if not location.file:
        return "no line"
    return f"{short(location.file)}:{location.line}"


def module_path(location: Location) -> str:
    """``layer_3/mlp``, or nothing."""
    return location.scope or "no scope"


@collection_paused
def tallies(steps: Sequence[ExplainedStep], place: Place, order: str) -> Tallies:
    """What each place of a partition costs, the largest first."""
    evidence = Evidence(steps)
    found: dict[str, Tally] = {}

    def at(location: Location | None) -> Tally:
        where = ARGUMENTS if location is None else place(location)
        return found.setdefault(where, Tally(where))

    _add_collectives(steps, at)
    _add_flops(evidence, at)
    if evidence.step.setting.device is not None:
        _add_estimate(evidence, at)
    return Tallies(found.values()).by(order)


At = Callable[[Location | None], Tally]


def _add_collectives(steps: Sequence[ExplainedStep], at: At) -> None:
    for use in collective_list(steps):
        tally = at(use.source)
        times = tally.collectives.get(use.kind, 0) + use.times
        tally.collectives[use.kind] = times
        tally.bytes += use.bytes


def _add_flops(evidence: Evidence, at: At) -> None:
    for op, trips in evidence.spmd.walk():
        if isinstance(op, Compute):
            flops = trips * work_of(op.nest).flops
            if flops:
                at(evidence.node_source(op.node)).flops += flops


def _add_estimate(evidence: Evidence, at: At) -> None:
    estimate = evidence.estimate
    for event, times in _flat(estimate.timeline, 1, estimate.trip_count):
        seconds = times * event.seconds
        if isinstance(event.op, Collective):
            tally = at(evidence.collective_source(event.op))
            before = tally.communication_seconds or 0.0
            tally.communication_seconds = before + seconds
        else:
            tally = at(evidence.node_source(event.op.node))
        tally.seconds = (tally.seconds or 0.0) + seconds
    for op, size in estimate.made_at_peak:
        if isinstance(op, Collective):
            tally = at(evidence.collective_source(op))
        else:
            tally = at(None if op is None else evidence.node_source(op.node))
        tally.memory = (tally.memory or 0) + size


def _flat(
    events: Iterable[Event], times: int, unknown: int
) -> Iterable[tuple[Event, int]]:
    """Events that are no loops, each with how often it runs."""
    for event in events:
        if event.inner and isinstance(event.op, Control):
            trips = unknown if event.op.trips is None else event.op.trips
            yield from _flat(event.inner, times * trips, unknown)
        else:
            yield event, times
