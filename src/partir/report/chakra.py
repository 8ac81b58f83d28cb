"""Chakra execution traces: what each rank computes and communicates in a step.

The schema is in ``chakra.proto``. A loop's body is written once, with the time, flops
and bytes of all its iterations; the attribute ``repetitions`` says how many. A permute
is a send and a receive; its time is the send's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from partir.report import wire
from partir.simulate.estimate import Estimate
from partir.simulate.timeline import Event, event_name, event_source
from partir.spmd.program import EXCHANGE, SLICE, Collective, Control
from partir.spmd.stablehlo.device_groups import permutation, replica_groups

VERSION = "0.0.4"
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
KINDS = {"all_reduce": 0, "all_gather": 2, "all_to_all": 6, "reduce_scatter": 7}


class Timed(NamedTuple):
    """An event that is no loop: how often it runs, and when first."""

    event: Event
    times: int
    start: float
    needs: tuple[int, ...]  # places of the events that it waits for


class Message(NamedTuple):
    """One node of a rank's trace; a receive takes no time of its own."""

    type: int
    name: str
    seconds: float
    attributes: bytes


class ChakraTraces:
    """The traces of all ranks of an estimated step, each made when it is asked for."""

    def __init__(self, estimate: Estimate) -> None:
        """Nothing is written yet."""
        self.estimate, self.mesh = estimate, estimate.program.mesh
        self._known: dict[tuple[str, ...], np.ndarray] = {}

    @cached_property
    def events(self) -> tuple[Timed, ...]:
        """All kernels and collectives in order, loops opened."""
        found: list[Timed] = []
        _flatten(self.estimate.timeline, 1, 0.0, self.estimate.trip_count, {}, found)
        return tuple(found)

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """Ranks of each group of devices, by the name that collectives call it."""
        return {
            str(first + number): [int(rank) for rank in ranks]
            for axes, first in self._first_group.items()
            for number, ranks in enumerate(self._ranks(axes))
        }

    def groups_json(self) -> str:
        """The same as JSON, as simulators read it."""
        return json.dumps(self.groups, indent=1)

    @cached_property
    def _first_group(self) -> dict[tuple[str, ...], int]:
        ops = [timed.event.op for timed in self.events]
        axes = dict.fromkeys(op.axes for op in ops if isinstance(op, Collective))
        found, first = {}, 1
        for one in axes:
            found[one] = first
            first += len(self._ranks(one))
        return found

    def _ranks(self, axes: tuple[str, ...]) -> np.ndarray:
        if axes not in self._known:
            self._known[axes] = replica_groups(self.mesh, axes)
        return self._known[axes]

    def rank(self, rank: int) -> bytes:
        """The file of one rank."""
        title = wire.text(1, "schema") + wire.text(29, VERSION)
        head = wire.text(1, VERSION) + wire.embedded(2, title)
        parts, ids = [wire.delimited(head)], list[int]()
        number, last = 0, dict[str, int]()
        for timed in self.events:
            before = sorted({ids[place] for place in timed.needs})
            for message in self._messages(timed, rank):
                number += 1
                stream = last.get(timed.event.stream)
                node = _node(number, message, timed, before, stream)
                parts.append(wire.delimited(node))
                last[timed.event.stream] = number
            ids.append(number)
        return b"".join(parts)

    def _messages(self, timed: Timed, rank: int) -> Iterator[Message]:
        event, op = timed.event, timed.event.op
        name = event_name(self.estimate.program, event)
        seconds = event.seconds * timed.times
        if not isinstance(op, Collective) or op.kind == SLICE:  # a part of what is here
            yield Message(COMPUTE, name, seconds, self._computed(timed))
        elif op.kind in KINDS:
            yield Message(COLLECTIVE, name, seconds, self._collective(timed, op, rank))
        else:
            yield from self._permuted(timed, op, rank, name, seconds)

    # Attributes

    def _common(self, timed: Timed) -> bytes:
        source = event_source(self.estimate.program, timed.event)
        ids = self.estimate.program.collective_ids
        names = [ids[op.result] for op in timed.event.members if op.result in ids]
        return (
            _attribute("repetitions", wire.number(9, timed.times))
            + _attribute("source", wire.text(29, source))
            + (_attribute("ids", wire.text(29, " ".join(names))) if names else b"")
        )

    def _computed(self, timed: Timed) -> bytes:
        kernel = timed.event.kernel
        moved = 1.0 if kernel is None else kernel.moved_bytes
        return (
            self._common(timed)
            + _attribute("is_cpu_op", _bool(False))
            + _attribute("num_ops", wire.number(9, _flops(timed)))
            + _attribute("tensor_size", wire.number(13, max(1, _bytes(moved, timed))))
        )

    def _collective(self, timed: Timed, op: Collective, rank: int) -> bytes:
        groups = self._ranks(op.axes)
        own = int(np.nonzero((groups == rank).any(axis=1))[0][0])
        name = str(self._first_group[op.axes] + own)
        involved = b"".join(b"\x01" if a in op.axes else b"\x00" for a in self.mesh)
        return (
            self._common(timed)
            + _attribute("is_cpu_op", _bool(False))
            + _attribute("num_ops", wire.number(9, _flops(timed)))
            + _attribute("comm_type", _int(KINDS[op.kind]))
            + _attribute("comm_size", wire.number(9, self._moved(timed)))
            + _attribute("pg_name", wire.text(29, name))
            + _attribute("involved_dim", wire.embedded(28, wire.embedded(1, involved)))
        )

    def _moved(self, timed: Timed, parts: int = 1) -> int:
        kernel = timed.event.kernel
        return 0 if kernel is None else _bytes(kernel.moved_bytes / parts, timed)

    def _permuted(
        self, timed: Timed, op: Collective, rank: int, name: str, seconds: float
    ) -> Iterator[Message]:
        rounds = list(self._rounds(op))
        if not rounds:  # each has what it needs
            yield Message(COMPUTE, name, seconds, self._computed(timed))
        for number, pairs in enumerate(rounds):
            sent = [int(b) for a, b in pairs if a == rank]
            got = [int(a) for a, b in pairs if b == rank]
            size = wire.number(9, self._moved(timed, len(rounds)))
            common = self._common(timed) + _attribute("is_cpu_op", _bool(False))
            common += _attribute("comm_size", size)
            took = seconds / len(rounds)
            for peer in sent:
                more = _peers(rank, peer, number)
                yield Message(SEND, f"{name} send", took, common + more)
            for peer in got:
                more = _peers(peer, rank, number)
                spent = 0.0 if sent else took
                yield Message(RECEIVE, f"{name} receive", spent, common + more)

    def _rounds(self, op: Collective) -> Iterator[np.ndarray]:
        """Pairs of sender and receiver, one round after another."""
        if op.kind != EXCHANGE:
            yield permutation(self.mesh, op.axes, op.order)
            return
        assert op.window is not None
        groups = self._ranks(op.axes)
        for one in op.window.plan[1]:
            sources, targets = np.array([(p.source, p.target) for p in one.pieces]).T
            pairs = np.stack([groups[:, sources], groups[:, targets]], axis=-1)
            yield np.unique(pairs.reshape(-1, 2), axis=0)


def _flatten(
    events: tuple[Event, ...],
    times: int,
    offset: float,
    unknown: int,
    makers: dict[int, int],
    found: list[Timed],
) -> None:
    """Append events that are no loops; `makers` are the places of what made values."""
    for event in events:
        op, kernel = event.op, event.kernel
        needs = () if kernel is None else tuple(kernel.reads)
        before = tuple(sorted({makers[v] for v in needs if v in makers}))
        if event.inner and isinstance(op, Control):
            trips = unknown if op.trips is None else op.trips
            start = offset + event.start
            _flatten(event.inner, times * trips, start, unknown, makers, found)
        else:
            found.append(Timed(event, times, offset + event.start, before))
        if kernel is not None and found:
            makers.update(dict.fromkeys(kernel.writes, len(found) - 1))


def _node(
    number: int, message: Message, timed: Timed, needs: list[int], last: int | None
) -> bytes:
    micros = round(message.seconds * 1e6)
    exact = _attribute("seconds", wire.fraction(3, message.seconds))
    return (
        wire.number(1, number)
        + wire.text(2, message.name)
        + wire.number(3, message.type)
        + wire.packed(4, () if last is None else (last,))
        + wire.packed(5, needs)
        + wire.number(6, round(timed.start * 1e6))
        + wire.number(7, micros)
        + message.attributes
        + exact
    )


def _attribute(name: str, value: bytes) -> bytes:
    return wire.embedded(10, wire.text(1, name) + value)


def _bool(value: bool) -> bytes:
    return wire.varint(27 << 3) + wire.varint(value)


def _int(value: int) -> bytes:
    """An int64 that may be zero: it is one of several kinds of value, so it is said."""
    return wire.varint(9 << 3) + wire.varint(value)


def _peers(source: int, target: int, number: int) -> bytes:
    made = _attribute("comm_src", _int(source)) + _attribute("comm_dst", _int(target))
    return made + _attribute("comm_tag", _int(number))


def _flops(timed: Timed) -> int:
    kernel = timed.event.kernel
    return 0 if kernel is None else round(kernel.flops * timed.times)


def _bytes(moved: float, timed: Timed) -> int:
    return round(moved * timed.times)
