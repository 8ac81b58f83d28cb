"""What collectives cost: bytes, seconds, share of the step."""

from __future__ import annotations

from collections.abc import Iterable

from partir.explain.answer import Price
from partir.explain.evidence import Evidence
from partir.simulate.estimate import Estimate
from partir.simulate.timeline import Event
from partir.spmd.program import Control


def collective_seconds(estimate: Estimate) -> dict[int, float]:
    """Seconds of each collective in a step, by the value that it makes.

    Of several that are done at once, each has its part by bytes.
    """
    found: dict[int, float] = {}
    _add(estimate, estimate.timeline, 1, found)
    return found


def _add(
    estimate: Estimate, events: Iterable[Event], times: int, found: dict[int, float]
) -> None:
    types = estimate.compiled.types
    for event in events:
        sizes = [
            types[op.operand].bytes + types[op.result].bytes for op in event.members
        ]
        whole = sum(sizes) or 1
        for op, size in zip(event.members, sizes, strict=True):
            seconds = times * event.seconds * size / whole
            found[op.result] = found.get(op.result, 0.0) + seconds
        if event.inner and isinstance(event.op, Control):
            trips = event.op.trips
            inside = estimate.trip_count if trips is None else trips
            _add(estimate, event.inner, times * inside, found)


def seconds_of(record: Evidence) -> dict[int, float]:
    """The same of a partition, computed once."""
    if record.seconds is None:
        record.seconds = collective_seconds(record.estimate)
    return record.seconds


def price_of(record: Evidence, name: str) -> Price:
    """The price of a collective by its name."""
    op, trips = record.collectives[name]
    took = seconds_of(record).get(op.result, 0.0)
    whole = record.estimate.seconds
    share = took / whole if whole else 0.0
    return Price(trips * record.spmd.bytes_sent(op), took, share, trips)
