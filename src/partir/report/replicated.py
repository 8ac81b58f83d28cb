"""`ReplicatedOp`: an op computed whole on an axis, and the list of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from partir.ir.garbage import collection_paused
from partir.ir.source import Location
from partir.partition.state import State
from partir.partition.values import Values
from partir.report.reasons import Reasons
from partir.report.sharing import Sharing, work_in
from partir.report.stops import Readers, Stop, behind_stops, readers_of
from partir.rules.registry import has_rule
from partir.spmd.program import Compute, SpmdProgram

LEAST_SHARE = 0.01  # of a device's work, from which on it is no detail


@dataclass(frozen=True, slots=True)
class ReplicatedOp:
    """An op that each device of an axis computes whole, and why.

    Tiling stopped at the op itself, or at `stopped_at`, an op before it; `reason` is
    about that one. All devices of the axis together do its work `work` times. `share`
    is its part of what one device computes.
    """

    name: str
    kind: str
    axis: str
    reason: str
    source: Location
    stopped_at: str
    stopped_source: Location
    work: float
    share: float

    @property
    def stopped_here(self) -> bool:
        """Whether it is the op itself that stopped the tiling."""
        return self.stopped_at == self.name

    def __str__(self) -> str:
        """One line."""
        where = f'{self.name} ({self.source}) is whole on "{self.axis}"'
        if not self.stopped_here:
            where += f" behind {self.stopped_at} ({self.stopped_source})"
        return f"{where}: {self.reason}"


class LoweredStep(Protocol):
    """What is needed of the partition after a tactic."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def completed(self) -> State: ...  # noqa: D102

    @property
    def spmd(self) -> SpmdProgram: ...  # noqa: D102

    @property
    def sharing(self) -> Sharing: ...  # noqa: D102

    @property
    def names(self) -> Values: ...  # noqa: D102


def find_replicated(steps: Sequence[LoweredStep]) -> tuple[ReplicatedOp, ...]:
    """After the last step: axis by axis, in program order."""
    return _ReplicatedOps(steps[-1], [step.name for step in steps]).find()


class _ReplicatedOps:
    def __init__(self, step: LoweredStep, tactics: Sequence[str]) -> None:
        self.state, self.program, self.sharing = step.completed, step.spmd, step.sharing
        self.names, self.tactics = step.names, tactics

    @collection_paused
    def find(self) -> tuple[ReplicatedOp, ...]:
        readers, shares = readers_of(self.program), self._shares()
        axes = [axis for axis, size in self.state.mesh.axes.items() if size > 1]
        return tuple(op for a in axes for op in self._on_axis(a, readers, shares))

    def _shares(self) -> dict[int, float]:
        """Part of each op in what a device computes."""
        axes, shares = self.state.mesh.axes, dict[int, float]()
        for op, trips in self.program.walk():
            if isinstance(op, Compute):
                done = trips * work_in(op.nest).everywhere(axes)
                part = done / self.sharing.everywhere if done else 0.0
                shares[op.node] = shares.get(op.node, 0.0) + part
        return shares

    def _on_axis(
        self, axis: str, readers: Readers, shares: dict[int, float]
    ) -> Iterator[ReplicatedOp]:
        stops = behind_stops(self.state, self.program, readers, axis)
        if sum(shares.get(node, 0.0) for node in stops) < LEAST_SHARE:
            stops = {}
        stops.update((node, Stop(node)) for node in stuck_ops(self.state, axis))
        reasons = Reasons(self.state, self.names, self.tactics, axis)
        ops, size = self.state.graph.program.ops, self.state.mesh.axes[axis]
        for node, stop in sorted(stops.items()):
            yield ReplicatedOp(
                self._name(node),
                ops[node].kind,
                axis,
                reasons.of(stop),
                ops[node].location,
                self._name(stop.node),
                self._source(stop.node),
                float(size),
                shares.get(node, 0.0),
            )

    def _op(self, node: int) -> int:
        """The op of a node; for what it carries, the op with regions."""
        program = self.state.graph.program
        if node < len(program.ops):
            return node
        owner = program.ties[node - len(program.ops)].owner
        assert owner is not None
        return owner

    def _name(self, node: int) -> str:
        op = self.state.graph.program.ops[self._op(node)]
        first = op.results[0] if op.results else -1
        return self.state.graph.program.addresses.get(first, op.kind)

    def _source(self, node: int) -> Location:
        return self.state.graph.program.ops[self._op(node)].location


def stuck_ops(state: State, axis: str) -> Iterator[int]:
    """Ops that read something tiled but have no rule, or no loop, or a conflict."""
    chosen, seen, size = state.chosen[axis], state.seen[axis], state.mesh.axes[axis]
    left = {conflict.node for conflict in state.conflicts[axis]}
    for node, op in enumerate(state.graph.program.ops):
        if chosen[node] or node in state.graph.owned:
            continue
        if any(seen[value] >= 0 for value in op.operands):
            known = state.known(node, axis)
            supported = state.nests[node].supported(size, known)
            if node in left or not supported or not has_rule(op.signature):
                yield node
