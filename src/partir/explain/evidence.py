"""`Evidence`: what explanations read of a partition, by the names that users know."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

from partir.ir.core import Program
from partir.ir.source import Location
from partir.partition.actions import Action
from partir.partition.state import Origin, State
from partir.partition.values import Value, Values
from partir.report.reasons import Reasons
from partir.report.sharing import Sharing
from partir.rules.nest import Loop
from partir.simulate.device.catalogue import devices
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.estimate import Estimate, Setting
from partir.spmd.program import Collective, Compute, NamedCollective, SpmdProgram

_DEVICE = "tpu_v5p"  # if nobody says one


class ExplainedStep(Protocol):
    """What is needed of the partition after a tactic."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def tactic(self) -> Any: ...  # noqa: D102

    @property
    def actions(self) -> tuple[Action, ...]: ...  # noqa: D102

    @property
    def found(self) -> tuple[Any, ...]: ...  # noqa: D102

    @property
    def state(self) -> State: ...  # noqa: D102

    @property
    def completed(self) -> State: ...  # noqa: D102

    @property
    def spmd(self) -> SpmdProgram: ...  # noqa: D102

    @property
    def names(self) -> Values: ...  # noqa: D102

    @property
    def sharing(self) -> Sharing: ...  # noqa: D102

    @property
    def setting(self) -> Setting: ...  # noqa: D102

    @property
    def estimate(self) -> Estimate: ...  # noqa: D102


class Evidence:
    """The partition after its last tactic, and the tactics that led there."""

    def __init__(self, steps: Sequence[ExplainedStep]) -> None:
        """Nothing is looked up yet."""
        self.steps, self.step = tuple(steps), steps[-1]
        self.names: Values = self.step.names
        self.program: Program = self.names.program
        self.tactics = [step.name for step in steps]
        self.seconds: dict[int, float] | None = None  # see `prices.seconds_of`
        self._reasons: dict[str, Reasons] = {}

    @property
    def state(self) -> State:
        """All decisions, those that completion made included."""
        return self.step.completed

    @property
    def spmd(self) -> SpmdProgram:
        """The SPMD program after the last tactic."""
        return self.step.spmd

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """Mesh axes of more than one device."""
        return tuple(a for a, size in self.state.mesh.axes.items() if size > 1)

    # Estimates

    @property
    def device(self) -> DeviceSpec:
        """The device that figures are for: the one that was said, or a common one."""
        return self.step.setting.device or devices[_DEVICE]

    @cached_property
    def estimate(self) -> Estimate:
        """Time and memory after the last tactic."""
        setting = self.step.setting
        known = setting.device is not None
        return self.step.estimate if known else setting.estimate(self.spmd, self.device)

    # Decisions

    @cached_property
    def order(self) -> dict[tuple[str, int], int]:
        """When each value was decided on an axis: its place among decisions there."""
        return {
            (axis, value): place
            for axis, origins in self.state.value_origins.items()
            for place, value in enumerate(origins)
        }

    def origin(self, axis: str, value: int) -> Origin | None:
        """What decided a value on an axis."""
        return self.state.tactic_of(axis, value)

    def loop(self, axis: str, node: int) -> Loop | None:
        """The loop of a node over an axis."""
        loops = self.state.nests[node].loops
        return next((loop for loop in loops if loop.axis == axis), None)

    def is_completed(self, axis: str, value: int) -> bool:
        """Whether no tactic decided a value, but completion after the last one."""
        return value not in self.step.state.value_origins[axis]

    def tactic(self, origin: Origin | None) -> str | None:
        """Name of the tactic that a decision goes back to."""
        if origin is None or origin.step >= len(self.tactics):
            return None
        return self.tactics[origin.step]

    def in_conflict(self, axis: str, node: int) -> bool:
        """Whether propagation left a node because its evidence is contrary."""
        return any(one.node == node for one in self.step.state.conflicts[axis])

    def reasons(self, axis: str) -> Reasons:
        """Reasons in words, on one axis; advice only comes from what was tried."""
        if axis not in self._reasons:
            made = Reasons(self.state, self.names, self.tactics, axis, advice=False)
            self._reasons[axis] = made
        return self._reasons[axis]

    # Names

    def owner(self, node: int) -> int | None:
        """The op of a node; of what is carried, the op with regions, if there is."""
        if node < len(self.program.ops):
            return node
        return self.state.graph.tie(node).owner

    def node_name(self, node: int) -> str:
        """Address of a node's op, or what is carried."""
        return self.names.node_name(self.state.graph, node)

    def node_kind(self, node: int) -> str:
        """``dot_general``; "carried" for what goes from call to call."""
        owner = self.owner(node)
        return "carried" if owner is None else self.program.ops[owner].signature.name

    def node_source(self, node: int) -> Location:
        """Where a node's op was written."""
        owner = self.owner(node)
        return Location() if owner is None else self.program.ops[owner].location

    def value_source(self, value: int) -> Location:
        """Where a value is made; nowhere if it is an argument."""
        producer = self.program.producers.get(value)
        return Location() if producer is None else self.program.ops[producer].location

    def collective_source(self, op: Collective) -> Location:
        """Where a collective belongs: at its reader, else where the value is made."""
        node = op.cause.producer if op.cause.consumer is None else op.cause.consumer
        return Location() if node is None else self.node_source(node)

    def view(self, value: int) -> Value:
        """A value with the user's dimensions."""
        return Value(self.state, self.names, value, self.dims.get(value, ()))

    @cached_property
    def dims(self) -> dict[int, tuple[int, ...]]:
        """The user's dimensions of values that have a name."""
        named = [*self.names.results, *self.names.tags, *self.names.arguments]
        return {value: dims for _, value, dims in named}

    def outer(self, value: int, dim: int) -> int:
        """The user's number for a dimension."""
        dims = self.dims.get(value, ())
        return dims.index(dim) if dim in dims else dim

    @cached_property
    def collectives(self) -> dict[str, tuple[Collective, int]]:
        """Every collective with how often it runs, by its name."""
        return {
            one.id: (one.op, one.trips)
            for one in self.spmd.named_collectives
            if isinstance(one.op, Collective)
        }

    @cached_property
    def written(self) -> dict[str, NamedCollective]:
        """Collectives that the model's author wrote, by name."""
        named = self.spmd.named_collectives
        return {one.id: one for one in named if isinstance(one.op, Compute)}
