"""Why a collective is there: who makes a value, who wants it otherwise."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from partir.explain.evidence import Evidence
from partir.explain.finding import (
    Finding,
    along,
    along_text,
    decider,
    kept_whole,
    latest,
    latest_tactic,
    node_decider,
    node_tactic,
    outside,
    stuck,
    supporters,
)
from partir.explain.wholes import summed
from partir.rules.factor import JOIN
from partir.rules.nest import WHOLE, Loop
from partir.rules.traits import PASSED_ON
from partir.spmd.program import EXCHANGE, Collective

_MOST_OPS = 200  # that are looked at for the one that sums


def why_moved(record: Evidence, op: Collective, axis: str | None = None) -> Finding:
    """What a collective is there for, on one of its axes, by default the first."""
    axis = axis or op.axes[0]
    found = _why(record, op, axis)
    if found.node is None or found.node not in record.state.resting:
        return found
    return replace(found, text=f"{found.text}; {_resting(record, axis, found.node)}")


def _resting(record: Evidence, axis: str, node: int) -> str:
    """Why a product is in other loops than those that propagation led to."""
    state, name = record.state, record.node_name(node)
    for value, need in zip(
        state.graph.operands[node], state.nests[node].needs, strict=True
    ):
        if need == state.tilings[value] and any(axis in axes for axes in need):
            rests = record.names.name(value)
            return f"{name} reads {rests} where it lies: fewer bytes move so"
    return f"{name} makes what it makes where that is kept: fewer bytes move so"


def _why(record: Evidence, op: Collective, axis: str) -> Finding:
    if op.monoid and op.monoid != JOIN:
        return _reduced(record, axis, op)
    if op.monoid == JOIN:
        return _joined(record, axis, op)
    if op.kind == EXCHANGE:
        return _neighbours(record, axis, op)
    consumer = _reader(record, axis, op)
    if consumer is None:
        return _at_home(record, axis, op)
    return _wanted(record, axis, op, consumer)


# Sums


def _reduced(record: Evidence, axis: str, op: Collective) -> Finding:
    found = _summing(record, axis, op)
    if found is None:
        text = "it is computed once and spread"
        return Finding("once", axis, text, op.cause.producer)
    node, loop = found
    operands = record.state.graph.operands[node]
    return summed(record, axis, node, loop, operands)


def _summing(record: Evidence, axis: str, op: Collective) -> tuple[int, Loop] | None:
    """The op whose loop leaves the sum; it may be inside a loop or further up."""
    graph, producers = record.state.graph, record.program.producers
    waiting, seen = deque([op.cause.value]), {op.cause.value}
    while waiting and len(seen) < _MOST_OPS:
        value = waiting.popleft()
        node = producers.get(value)
        loop = None if node is None else record.loop(axis, node)
        if node is not None and loop is not None and loop.factor.reduce is not None:
            return node, loop
        ties = [n for n in graph.neighbours[value] if value in graph.results[n]]
        for before in [v for n in ties for v in graph.operands[n]]:
            if before not in seen:
                seen.add(before)
                waiting.append(before)
    return None


def _joined(record: Evidence, axis: str, op: Collective) -> Finding:
    node = op.cause.producer
    assert node is not None
    loop = record.loop(axis, node)
    assert loop is not None
    return summed(record, axis, node, loop, record.state.graph.operands[node])


# Moves


def _neighbours(record: Evidence, axis: str, op: Collective) -> Finding:
    value, _, consumer = op.cause
    name = record.names.name(value)
    tactic = latest_tactic(record, axis, (value,))
    reader = "" if consumer is None else f" by {record.node_name(consumer)}"
    text = (
        f"dimension {record.outer(value, op.dim)} of {name} is tiled over "
        f'"{axis}"{_since(tactic)} and read beside its tiles{reader}: neighbours hold '
        "those rows"
    )
    return Finding("neighbours", axis, text, consumer, tactic, (value,))


def _reader(record: Evidence, axis: str, op: Collective) -> int | None:
    """The node that wants a value otherwise; of a loop's operands, the carry."""
    value, _, consumer = op.cause
    graph = record.state.graph
    if consumer is None or consumer not in graph.owned:
        return consumer
    ties = graph.owned[consumer]
    return next((t for t in ties if value in graph.operands[t]), ties[0])


def _wanted(record: Evidence, axis: str, op: Collective, node: int) -> Finding:
    """An op reads a value in another layout than the value has at home."""
    state, value = record.state, op.cause.value
    if (axis, value) in state.closed or _constrains(record, axis, node):
        results = state.graph.results[node]
        closed = [v for v in (value, *results) if (axis, v) in state.closed]
        return kept_whole(record, axis, closed[0], node)
    if state.seen[axis][value] == WHOLE:
        return kept_whole(record, axis, value, node)
    loop = record.loop(axis, node)
    if loop is None:
        return stuck(record, axis, node)
    cause = _disagreement(record, axis, node, value)
    tactic = _later(record, axis, value, node)
    text = _differ(record, axis, op, node, loop, cause)
    others = tuple(v for v in (value, *supporters(record, axis, node, loop)))
    return Finding(cause, axis, text, node, tactic, tuple(dict.fromkeys(others)))


def _constrains(record: Evidence, axis: str, node: int) -> bool:
    graph, closed = record.state.graph, record.state.closed
    if graph.signatures[node].kind not in PASSED_ON:
        return False
    return any((axis, value) in closed for value in graph.results[node])


def _disagreement(record: Evidence, axis: str, node: int, value: int) -> str:
    """Why an op with a loop over the axis does not loop along a value as it lies."""
    state = record.state
    operands, home = state.graph.operands[node], state.homes[axis][value]
    if value not in operands or home < 0:
        return "other_loop"
    place = operands.index(value), home
    cause = along(outside(record, axis, node), place, state.mesh.axes[axis])
    if cause == "other_loop" and record.in_conflict(axis, node):
        return "conflict"
    return cause


def _later(record: Evidence, axis: str, value: int, node: int) -> str | None:
    """The tactic since which a value and a node's loop disagree."""
    return latest(
        record, [decider(record, axis, value), node_decider(record, axis, node)]
    )


def _differ(
    record: Evidence, axis: str, op: Collective, node: int, loop: Loop, cause: str
) -> str:
    value, name = op.cause.value, record.names.name(op.cause.value)
    home = record.state.homes[axis][value]
    lies = f"{name} is whole"
    if home >= 0:
        since = _since(latest_tactic(record, axis, (value,)))
        lies = f"{name} is tiled on dimension {record.outer(value, home)}{since}"
    runs = along_text(record, node, loop.factor) + _when(record, axis, node)
    reader = record.node_name(node)
    if cause == "no_loop":
        return (
            f"{reader} needs dimension {record.outer(value, home)} of {name} whole; it "
            f'loops over "{axis}" {runs} instead'
        )
    if cause == "does_not_divide":
        return (
            f"{reader} can't loop along dimension {record.outer(value, home)} of "
            f'{name} over "{axis}", whose size does not divide it; it loops {runs}'
        )
    return f'over "{axis}", {lies}, and {reader} loops {runs}'


def _when(record: Evidence, axis: str, node: int) -> str:
    if node in record.state.resting:
        return ""
    if node in record.step.state.node_origins[axis]:
        return _since(node_tactic(record, axis, node))
    return " (completed after the last tactic)"


def _at_home(record: Evidence, axis: str, op: Collective) -> Finding:
    """A result is moved to where it is kept, not for one reader."""
    state, (value, producer, _) = record.state, op.cause
    if WHOLE in (state.homes[axis][value], state.seen[axis][value]):
        return kept_whole(record, axis, value, producer)
    name, tactic = record.names.name(value), latest_tactic(record, axis, (value,))
    home = state.homes[axis][value]
    if home >= 0:
        text = (
            f"{name} is kept tiled on dimension {record.outer(value, home)} over "
            f'"{axis}"{_since(tactic)}, and is made otherwise'
        )
        return Finding("other_home", axis, text, producer, tactic, (value,))
    port = next((p for p in record.program.results if p.value == value), None)
    what = f"result {port.name}" if port else name
    text = f'{what} is handed over whole on "{axis}": nothing tiles it there'
    return Finding("whole_result", axis, text, producer, tactic, (value,))


def _since(tactic: str | None) -> str:
    return f' (since "{tactic}")' if tactic else ""
