"""The timeline of a step: events on streams, and as a trace for viewers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from partir.simulate.kernels.kernel import Kernel
from partir.spmd.program import Collective, Control, SpmdOp, SpmdProgram

_STREAMS = {"compute": 1, "communication": 2}
_MODULES = 3  # a thread that shows module paths


class Event(NamedTuple):
    """An op or a collective: its stream, start and duration in seconds.

    `inner` are the events of one iteration, if it is a loop.
    """

    op: SpmdOp
    stream: str
    start: float
    seconds: float
    inner: tuple[Event, ...] = ()
    kernel: Kernel | None = None

    @property
    def members(self) -> tuple[Collective, ...]:
        """Collectives that are done at once."""
        return () if self.kernel is None else self.kernel.members


def event_name(program: SpmdProgram, event: Event) -> str:
    """``dot_general`` or ``all_gather {B}``."""
    if isinstance(event.op, Collective):
        return f"{event.op.kind} {{{','.join(event.op.axes)}}}"
    return program.program.ops[event.op.node].signature.name


def event_source(program: SpmdProgram, event: Event) -> str:
    """The user's line, and for a collective the value that it moves."""
    ops = program.program.ops
    if isinstance(event.op, Collective):
        cause = event.op.cause
        node = cause.consumer if cause.consumer is not None else cause.producer
        place = f" ({ops[node].location})" if node is not None else ""
        return f"{program.program.describe(cause.value)}{place}"
    return str(ops[event.op.node].location)


def event_scope(program: SpmdProgram, event: Event) -> str:
    """The module path of an event's op, or of a collective's reader or maker."""
    node = _node(event)
    return "" if node is None else program.program.ops[node].location.scope


def _node(event: Event) -> int | None:
    if not isinstance(event.op, Collective):
        return event.op.node
    cause = event.op.cause
    return cause.producer if cause.consumer is None else cause.consumer


def perfetto(
    program: SpmdProgram, events: Iterable[Event], title: str, unknown: int = 1
) -> str:
    """The timeline in the Chrome trace format, which Perfetto opens.

    One process, a thread for each stream and one for module paths; times are
    microseconds. Within a loop one iteration is shown, nested in the loop's own event;
    `times` says how often it runs. Loops of unknown length run `unknown` times.
    """
    entries: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": title}}
    ]
    entries += [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": 1,
            "tid": number,
            "args": {"name": name},
        }
        for name, number in {**_STREAMS, "modules": _MODULES}.items()
    ]
    events = tuple(events)
    entries += _entries(program, events, 0.0, 1, unknown)
    entries += _modules(program, events)
    return json.dumps({"traceEvents": entries, "displayTimeUnit": "ns"}, indent=0)


def _facts(program: SpmdProgram, event: Event) -> dict[str, Any]:
    """Where an event comes from; of collectives also their names."""
    facts: dict[str, Any] = {"source": event_source(program, event)}
    if event.inner:
        facts["loop"] = True
    if scope := event_scope(program, event):
        facts["scope"] = scope
    if event.members:
        ids = program.collective_ids
        facts["ids"] = [ids[one.result] for one in event.members if one.result in ids]
    return facts


def _modules(program: SpmdProgram, events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """What is computed one after another in one module, as one slice."""
    computed = [e for e in events if e.stream == "compute" and e.seconds]
    for scope, group in groupby(computed, lambda event: event_scope(program, event)):
        run = list(group)
        if scope:
            start, end = run[0].start, run[-1].start + run[-1].seconds
            yield {
                "ph": "X",
                "name": scope,
                "cat": "module",
                "pid": 1,
                "tid": _MODULES,
                "ts": start * 1e6,
                "dur": (end - start) * 1e6,
            }


def _entries(
    program: SpmdProgram,
    events: Iterable[Event],
    offset: float,
    times: int,
    unknown: int,
) -> Iterator[dict[str, Any]]:
    for event in events:
        if not event.seconds:
            continue
        start = offset + event.start
        yield {
            "ph": "X",
            "name": event_name(program, event),
            "cat": event.stream,
            "pid": 1,
            "tid": _STREAMS[event.stream],
            "ts": start * 1e6,
            "dur": event.seconds * 1e6,
            "args": {**_facts(program, event), "times": times},
        }
        inside = times * _trips(event, unknown)
        yield from _entries(program, event.inner, start, inside, unknown)


def _trips(event: Event, unknown: int) -> int:
    if not isinstance(event.op, Control):
        return 1
    return unknown if event.op.trips is None else event.op.trips
