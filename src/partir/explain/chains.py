"""The chain of decisions from a tactic to a value or to an op's loop."""

from __future__ import annotations

from collections.abc import Iterator

from partir.explain.answer import Link
from partir.explain.evidence import Evidence


def chain_of(record: Evidence, axis: str, value: int) -> tuple[Link, ...]:
    """Decisions that tile a value on an axis, the tactic's own first."""
    links = []
    for one, supporter in _backwards(record, axis, value):
        links.append(_link(record, axis, one, supporter))
    return tuple(reversed(links))


def loop_chain(record: Evidence, axis: str, node: int) -> tuple[Link, ...]:
    """Decisions that lead to an op's loop over an axis."""
    value = supporter_of(record, axis, node)
    return () if value is None else chain_of(record, axis, value)


def root_of(record: Evidence, axis: str, value: int) -> int:
    """The value with which the chain begins."""
    for one, _ in _backwards(record, axis, value):
        value = one
    return value


def _backwards(
    record: Evidence, axis: str, value: int
) -> Iterator[tuple[int, int | None]]:
    """Values from this one to the first, each with the one that it has it from."""
    current: int | None = value
    while current is not None and record.state.homes[axis][current] >= 0:
        origin = record.origin(axis, current)
        before = None
        if origin is not None and origin.node is not None:
            before = supporter_of(record, axis, origin.node, current)
        yield current, before
        current = before


def supporter_of(
    record: Evidence, axis: str, node: int, value: int | None = None
) -> int | None:
    """The value around a node that was decided first, and before `value`."""
    own = record.state.node_origins[axis].get(node)
    if own is not None and own.node is None:  # a tactic chose the loop
        return None
    state, order = record.state, record.order
    before = order.get((axis, value), -1) if value is not None else len(order)
    values = state.graph.operands[node] + state.graph.results[node]
    loop = record.loop(axis, node)
    found = [
        (order[axis, one], one)
        for position, one in enumerate(values)
        if state.homes[axis][one] >= 0
        and order.get((axis, one), before) < before
        and (loop is None or loop.factor.dim(position) == state.homes[axis][one])
    ]
    return min(found)[1] if found else _detoured(record, axis, node, before)


def _detoured(record: Evidence, axis: str, node: int, before: int) -> int | None:
    """The operand that completion led through a node along another dimension."""
    state, order = record.state, record.order
    if node in record.step.state.node_origins[axis]:  # a tactic led there
        return None
    found = [
        (order[axis, one], one)
        for one in state.graph.operands[node]
        if state.homes[axis][one] >= 0 and order.get((axis, one), before) < before
    ]
    return min(found)[1] if found else None


def _link(record: Evidence, axis: str, value: int, supporter: int | None) -> Link:
    origin = record.origin(axis, value)
    node = None if origin is None else origin.node
    how = "asked" if node is None else "through"
    if node is not None:
        own = record.state.node_origins[axis].get(node)
        if record.is_completed(axis, value):
            how = "completed"
        elif supporter is None and own is not None and own.node is None:
            how = "chosen"
    return Link(
        record.names.name(value),
        record.outer(value, record.state.homes[axis][value]),
        axis,
        how,
        record.tactic(origin),
        "" if node is None else record.node_name(node),
        record.value_source(value) if node is None else record.node_source(node),
    )
