"""Remedies: changes that were tried and make things better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice

from partir.explain.answer import Remedy, StepFigures
from partir.explain.changes import Changes
from partir.explain.evidence import Evidence
from partir.explain.finding import Finding
from partir.explain.trial import Asked, Change, Trials
from partir.partition.state import State
from partir.spmd.program import Collective, SpmdProgram

MOST_TRIED = 12
MOST_SAID = 5
_LESS = 0.999  # of time or memory, for a change to count as better
_TRADED = 0.995  # of time and memory together, for one that gives one for the other

Better = Callable[[StepFigures, StepFigures], bool]


def for_collective(
    record: Evidence, op: Collective, findings: Sequence[Finding]
) -> tuple[Remedy, ...]:
    """What removes or shrinks a collective and makes the step faster."""
    changes = Changes(record)
    moved = frozenset(changes.named_alike(op.cause.value))

    def asked(state: State, spmd: SpmdProgram) -> int:
        return sum(
            trips * spmd.bytes_sent(one)
            for one, trips in spmd.walk()
            if isinstance(one, Collective) and one.cause.value in moved
        )

    found = (_collective_changes(changes, op, finding) for finding in findings)
    return _tried(record, asked, chain.from_iterable(found), _moves_less)


def _collective_changes(
    changes: Changes, op: Collective, finding: Finding
) -> Iterable[Change]:
    if op.kind == "all_gather" and not op.monoid:
        yield from changes.kept(finding.axis, op.cause.value)
    yield from changes.of_finding(finding)
    if finding.cause in ("summed", "whole_result"):
        yield from changes.of_value(finding.axis, op.cause.value)


def for_whole(
    record: Evidence, axis: str, value: int, finding: Finding
) -> tuple[Remedy, ...]:
    """What tiles a value, or the work on it, and makes the step faster or smaller."""

    def asked(state: State, spmd: SpmdProgram) -> int:
        return int(state.homes[axis][value] < 0)

    def better(before: StepFigures, after: StepFigures) -> bool:
        tiled = after.asked_bytes < before.asked_bytes
        return after.seconds < _LESS * before.seconds or (
            tiled and _worth_it(before, after)
        )

    changes = Changes(record)
    of_others, own = changes.of_finding(finding), changes.of_value(axis, value)
    if finding.cause == "nobody_asked":  # say it of the value, if that helps
        found = _tried(record, asked, own, better)
        return found or _tried(record, asked, of_others, better)
    return _tried(record, asked, chain(of_others, own), better)


def _tried(
    record: Evidence, asked: Asked, changes: Iterable[Change], better: Better
) -> tuple[Remedy, ...]:
    trials = Trials(record, asked)
    limit = record.device.memory_bytes
    found = []
    for change in islice(_distinct(changes), MOST_TRIED):
        remedy = trials(change)
        if remedy is None or not better(remedy.before, remedy.after):
            continue
        if remedy.before.peak_bytes <= limit < remedy.after.peak_bytes:
            continue
        found.append(remedy)
    found.sort(key=lambda one: (one.after.seconds, one.after.peak_bytes))
    return _of_each_kind(found)


def _of_each_kind(found: list[Remedy]) -> tuple[Remedy, ...]:
    """The best, and the best of other kinds before more of the same."""
    first = {remedy.action: remedy for remedy in reversed(found)}
    rest = [remedy for remedy in found if first[remedy.action] is not remedy]
    chosen = [*(r for r in found if first[r.action] is r), *rest][:MOST_SAID]
    return tuple(sorted(chosen, key=found.index))


def for_peak(record: Evidence, changes: Iterable[Change]) -> tuple[Remedy, ...]:
    """What lowers the peak of memory, the most first."""

    def asked(state: State, spmd: SpmdProgram) -> int:
        return 0

    trials = Trials(record, asked)
    tried = [trials(change) for change in islice(_distinct(changes), MOST_TRIED)]
    found = [one for one in tried if one and _smaller(one.before, one.after)]
    found.sort(key=lambda one: one.after.peak_bytes)
    return tuple(found[:MOST_SAID])


def _distinct(changes: Iterable[Change]) -> Iterable[Change]:
    seen = set()
    for change in changes:
        key = change.action, change.target, change.dim, change.position
        if key not in seen:
            seen.add(key)
            yield change


def _moves_less(before: StepFigures, after: StepFigures) -> bool:
    """Less of what was asked about, less in all, and no longer a step."""
    return (
        after.asked_bytes < before.asked_bytes
        and after.bytes_communicated < before.bytes_communicated
        and after.seconds <= before.seconds
    )


def _worth_it(before: StepFigures, after: StepFigures) -> bool:
    """Memory saved is more than time lost, as shares."""
    now = after.seconds * after.peak_bytes
    return now < _TRADED * before.seconds * before.peak_bytes


def _smaller(before: StepFigures, after: StepFigures) -> bool:
    return after.peak_bytes < _LESS * before.peak_bytes
