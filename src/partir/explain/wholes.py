"""Why a value is whole on an axis."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from partir.explain.evidence import Evidence
from partir.explain.finding import (
    Finding,
    along,
    kept_whole,
    latest_tactic,
    node_tactic,
    stuck,
    supporters,
)
from partir.report.stops import Stop
from partir.rules.factor import JOIN
from partir.rules.indexing import taken_dims
from partir.rules.nest import UNDECIDED, WHOLE, Loop

_MOST_OPS = 4000  # that are looked at upstream
_MOST_BELOW = 200  # values that are looked at downstream


def why_whole(record: Evidence, axis: str, value: int) -> Finding:
    """The nearest reason before a value, else what its readers say of it."""
    for finding in _upstream(record, axis, value):
        return finding
    return _argument(record, axis, value)


def _upstream(record: Evidence, axis: str, value: int) -> Iterator[Finding]:
    """Reasons for a value and for what it is computed from, the nearest first."""
    waiting, seen = deque([value]), {value}
    while waiting and len(seen) < _MOST_OPS:
        value = waiting.popleft()
        finding = _here(record, axis, value)
        if finding is not None:
            yield finding
        for before in _sources(record, value):
            if before not in seen:
                seen.add(before)
                waiting.append(before)


def _sources(record: Evidence, value: int) -> tuple[int, ...]:
    """What a value is computed from; of what a loop carries, what goes in."""
    producer, graph = record.program.producers.get(value), record.state.graph
    if producer is not None and producer not in graph.owned:
        return graph.operands[producer]
    ties = [n for n in graph.neighbours[value] if graph.op(n) is None]
    return tuple(
        source
        for tie in ties
        if value in graph.results[tie] and graph.tie(tie).owner is not None
        for source in graph.operands[tie]
    )


def _here(record: Evidence, axis: str, value: int) -> Finding | None:
    """Why a value is whole, if that shows at the op that makes it."""
    state, graph = record.state, record.state.graph
    if WHOLE in (state.homes[axis][value], state.seen[axis][value]):
        producer = record.program.producers.get(value)
        return kept_whole(record, axis, value, producer)
    for node in graph.neighbours[value]:
        if value not in graph.results[node]:
            continue
        loop = record.loop(axis, node)
        if loop is not None:
            return _made(record, axis, node, loop)
        if any(state.seen[axis][v] >= 0 for v in graph.operands[node]):
            return stuck(record, axis, node)
    return None


def _made(record: Evidence, axis: str, node: int, loop: Loop) -> Finding:
    """Of a node that has a loop over the axis but does not leave tiles."""
    graph = record.state.graph
    if loop.factor.reduce is None:
        text = record.reasons(axis).of(Stop(node, "makes"))
        return Finding(
            "does_not_divide", axis, text, node, node_tactic(record, axis, node)
        )
    return summed(record, axis, node, loop, graph.operands[node])


def summed(
    record: Evidence, axis: str, node: int, loop: Loop, operands: tuple[int, ...]
) -> Finding:
    """Of a node whose loop over the axis is a sum, or takes one slice."""
    along = [
        (value, dim)
        for value, dim in zip(operands, loop.factor.operands, strict=True)
        if dim is not None
    ]
    values = tuple(value for value, _ in along)
    tactic = node_tactic(record, axis, node)
    taken = taken_dims(record.state.graph.signatures[node])
    if taken and loop.factor.operands[0] in taken:
        text = record.reasons(axis).of(Stop(node, "takes"))
        return Finding("one_slice", axis, text, node, tactic, values)
    value, dim = along[0]
    name = record.names.name(value)
    by = f' (since "{tactic}")' if tactic else ""
    how = {"max": "the largest", "min": "the least"}.get(loop.factor.reduce or "")
    how = how or ("partial results" if loop.factor.reduce == JOIN else "the sum")
    text = (
        f"it is {how} over dimension {record.outer(value, dim)} of {name}, which is "
        f'tiled over "{axis}"{by}: each device has a part of it'
    )
    cause = "joined" if loop.factor.reduce == JOIN else "summed"
    return Finding(cause, axis, text, node, tactic, values)


def _argument(record: Evidence, axis: str, value: int) -> Finding:
    """Of a value that nothing before it explains."""
    skipped = _skipped(record, axis, value)
    if skipped is not None:
        return skipped
    state, graph = record.state, record.state.graph
    readers = [n for n in graph.neighbours[value] if value in graph.operands[n]]
    for node in readers:
        loop = record.loop(axis, node)
        if loop is not None and _names(loop, graph.operands[node], value):
            text = (
                f'no dimension of it divides over "{axis}" of size '
                f"{state.mesh.axes[axis]}, along which {record.node_name(node)} loops"
            )
            tactic = node_tactic(record, axis, node)
            return Finding("does_not_divide", axis, text, node, tactic, (value,))
    halted = _downstream(record, axis, value)
    return halted or _unasked(record, axis, value, readers)


def _downstream(record: Evidence, axis: str, value: int) -> Finding | None:
    """The first op behind a value, all whole till there, that others ask to tile."""
    graph = record.state.graph
    waiting, seen = deque([value]), {value}
    while waiting and len(seen) < _MOST_BELOW and record.program.types[value].shape:
        current = waiting.popleft()
        for node in graph.neighbours[current]:
            if current not in graph.operands[node] or record.loop(axis, node):
                continue
            if (finding := _asked_here(record, axis, node)) is not None:
                return finding
            waiting += [v for v in graph.results[node] if v not in seen]
            seen.update(graph.results[node])
    return None


def _asked_here(record: Evidence, axis: str, node: int) -> Finding | None:
    """Of an op without a loop: what around it is tiled, and why it does not follow."""
    state, graph = record.state, record.state.graph
    if any(state.seen[axis][v] >= 0 for v in graph.operands[node]):
        return stuck(record, axis, node)
    results = graph.results[node]
    tiled = [(n, v) for n, v in enumerate(results) if state.homes[axis][v] >= 0]
    if not tiled or graph.op(node) is None:
        return None
    number, value = tiled[0]
    place = len(graph.operands[node]) + number, state.homes[axis][value]
    nest, size = state.nests[node], state.mesh.axes[axis]
    cause = along(nest, place, size)
    cause = "conflict" if cause == "other_loop" else cause
    tactic = latest_tactic(record, axis, (value,))
    text = record.reasons(axis).below(node, *place)
    return Finding(cause, axis, text, node, tactic, tuple(v for _, v in tiled))


def _names(loop: Loop, operands: tuple[int, ...], value: int) -> bool:
    dims = zip(operands, loop.factor.operands, strict=True)
    return any(one == value and dim is not None for one, dim in dims)


def _unasked(record: Evidence, axis: str, value: int, readers: list[int]) -> Finding:
    """Of a value that nobody tiles; its readers may have other loops."""
    if not record.program.types[value].shape:
        text = "a scalar has no dimension to tile"
        return Finding("nobody_asked", axis, text)
    if not readers:
        return Finding("nobody_asked", axis, "no tactic tiles it, and nothing reads it")
    looped = [(n, loop) for n in readers if (loop := record.loop(axis, n))]
    if looped:
        node, loop = looped[0]
        text = (
            f'no tactic tiles it over "{axis}", and those of its readers that loop '
            f"over it, as {record.node_name(node)}, do so along dimensions that it "
            "does not have"
        )
        values = tuple(supporters(record, axis, node, loop))
        return Finding("nobody_asked", axis, text, values=values)
    asked = any(home != UNDECIDED for home in record.state.homes[axis])
    text = (
        f'no tactic tiles it over "{axis}", and nothing that reads it asks for it'
        if asked
        else f'no tactic tiles anything over "{axis}"'
    )
    return Finding("nobody_asked", axis, text)


def _skipped(record: Evidence, axis: str, value: int) -> Finding | None:
    """A tactic looked at it and left it alone, since no dimension divides."""
    state, name = record.state, record.names.unique_name(value)
    dims = range(len(record.program.types[value].shape))
    if not dims or any(state.divides(value, dim, axis) for dim in dims):
        return None
    for step in record.steps:
        for action in step.actions:
            if (action.kind, action.target, action.axis) == ("skip", name, axis):
                text = f'tactic "{step.name}" left it alone: {action.reason}'
                cause, tactic = "does_not_divide", step.name
                return Finding(cause, axis, text, None, tactic, (value,))
    return None
