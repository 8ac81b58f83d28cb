"""Time in which stages of a pipeline wait for their first or after their last batch."""

from __future__ import annotations

from collections.abc import Iterable

from partir.ir.core import Program
from partir.ir.idle import idle_ticks
from partir.simulate.timeline import Event
from partir.spmd.program import Control


def bubble_seconds(program: Program, events: Iterable[Event], trip_count: int) -> float:
    """The idle share of every pipeline's loop, loops around them multiplied."""
    total = 0.0
    for event in events:
        if not isinstance(event.op, Control):
            continue
        trips = trip_count if event.op.trips is None else event.op.trips
        idle, ticks = idle_ticks(program.ops[event.op.node].location.path) or (0, 0)
        if ticks and trips == ticks:
            total += event.seconds * idle / ticks
        else:
            total += trips * bubble_seconds(program, event.inner, trip_count)
    return total
