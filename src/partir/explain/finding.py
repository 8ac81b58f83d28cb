"""`Finding`: why things are so at one place, and whose decisions could change it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from partir.explain.answer import Halt
from partir.explain.chains import root_of, supporter_of
from partir.explain.evidence import Evidence
from partir.partition.state import Origin
from partir.report.stops import Stop
from partir.rules.factor import Factor
from partir.rules.nest import UNDECIDED, WHOLE, Loop, Nest, nest_of
from partir.rules.registry import has_rule


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause on an axis: the node where it shows, in words, since which tactic.

    `values` are those whose decisions are at issue: tiled in a way that does not fit,
    or kept whole.
    """

    cause: str
    axis: str
    text: str
    node: int | None = None
    tactic: str | None = None
    values: tuple[int, ...] = ()

    def halt(self, record: Evidence) -> Halt | None:
        """The node as people see it."""
        if self.node is None:
            return None
        return Halt(
            record.node_name(self.node),
            record.node_kind(self.node),
            record.node_source(self.node),
            self.text,
        )


def kept_whole(record: Evidence, axis: str, value: int, node: int | None) -> Finding:
    """A value that a tactic or the model itself keeps whole."""
    origin, name = record.origin(axis, value), record.names.name(value)
    closed = (axis, value) in record.state.closed
    tactic = None if closed else record.tactic(origin)
    asked = f'tactic "{tactic}"' if tactic else "the model's own sharding constraint"
    text = f'{asked} keeps {name} whole on "{axis}"'
    return Finding("kept_whole", axis, text, node, tactic, (value,))


def stuck(record: Evidence, axis: str, node: int) -> Finding:
    """A node that reads something tiled and has no loop over the axis."""
    state, graph = record.state, record.state.graph
    if (whole := pinned_around(record, axis, node)) is not None:
        return kept_whole(record, axis, whole, node)
    tiled = tuple(v for v in graph.operands[node] if state.seen[axis][v] >= 0)
    text = record.reasons(axis).of(Stop(node))
    tactic = latest_tactic(record, axis, tiled)
    cause = _cause(record, axis, node)
    return Finding(cause, axis, text, node, tactic, tiled)


def pinned_around(record: Evidence, axis: str, node: int) -> int | None:
    """A value around a node but for which the node would have its loop."""
    state = record.state
    known = state.known(node, axis)
    if WHOLE not in known:
        return None
    free = tuple(UNDECIDED if home == WHOLE else home for home in known)
    if state.nests[node].judge(state.mesh.axes[axis], free) < 0:
        return None
    values = state.graph.operands[node] + state.graph.results[node]
    return values[known.index(WHOLE)]


def _cause(record: Evidence, axis: str, node: int) -> str:
    state = record.state
    nest, size = state.nests[node], state.mesh.axes[axis]
    if not has_rule(state.graph.signatures[node]):
        return "no_rule"
    if nest.supported(size, state.known(node, axis)):
        return "conflict"
    operands = state.graph.operands[node]
    homes = [(p, state.seen[axis][v]) for p, v in enumerate(operands)]
    return along(nest, next(((p, d) for p, d in homes if d >= 0), None), size)


def along(nest: Nest, place: tuple[int, int] | None, size: int) -> str:
    """Whether an op can have a loop along an operand's dimension, and if not, why."""
    if place is None:
        return "no_loop"
    position, dim = place
    factors = [f for f in nest.factors if f.dim(position) == dim]
    if not factors:
        return "no_loop"
    return "other_loop" if any(f.fits(size) for f in factors) else "does_not_divide"


def outside(record: Evidence, axis: str, node: int) -> Nest:
    """A node's nest without its loop over an axis."""
    nest = record.state.nests[node]
    return nest.without((axis,)) or nest_of(nest.signature)


def latest_tactic(record: Evidence, axis: str, values: tuple[int, ...]) -> str | None:
    """Name of the last of the tactics that decided these values."""
    return latest(record, [decider(record, axis, value) for value in values])


def latest(record: Evidence, origins: Iterable[Origin | None]) -> str | None:
    """Name of the last of the tactics that decisions go back to."""
    known = [origin for origin in origins if origin is not None]
    return record.tactic(max(known, key=lambda o: o.step)) if known else None


def decider(record: Evidence, axis: str, value: int) -> Origin | None:
    """What decided a value; if completion did, what led it there."""
    if record.is_completed(axis, value):
        value = root_of(record, axis, value)
    return record.origin(axis, value)


def node_decider(record: Evidence, axis: str, node: int) -> Origin | None:
    """The same for a node's loop."""
    origin = record.step.state.node_origins[axis].get(node)
    if origin is not None or node not in record.state.node_origins[axis]:
        return origin
    value = supporter_of(record, axis, node)
    return None if value is None else decider(record, axis, value)


def node_tactic(record: Evidence, axis: str, node: int) -> str | None:
    """The tactic since which a node has its loop."""
    return record.tactic(node_decider(record, axis, node))


def supporters(record: Evidence, axis: str, node: int, loop: Loop) -> list[int]:
    """Values that lie along a node's loop."""
    state = record.state
    values = state.graph.operands[node] + state.graph.results[node]
    return [
        value
        for position, value in enumerate(values)
        if loop.factor.dim(position) == state.homes[axis][value] >= 0
    ]


def along_text(record: Evidence, node: int, factor: Factor) -> str:
    """Along which dimension of what a loop over a factor runs, in words."""
    graph = record.state.graph
    operands = graph.operands[node]
    for number, dim in enumerate(factor.results):
        if dim is not None:
            value = graph.results[node][number]
            return f"along dimension {record.outer(value, dim)} of its result"
    for position, dim in enumerate(factor.operands):
        if dim is not None:
            name = record.names.name(operands[position])
            return f"along dimension {record.outer(operands[position], dim)} of {name}"
    return "along no dimension"
