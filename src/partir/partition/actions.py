"""`Partition`: what a tactic is handed. Actions are checked before anything changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from partir.errors import PartitionError
from partir.ir.core import Program
from partir.mesh import Mesh
from partir.partition.propagate import propagate
from partir.partition.state import Graph, Origin, State
from partir.partition.stepped import find_stepped
from partir.partition.values import OpView, Value, Values
from partir.rules.nest import UNDECIDED, WHOLE


@dataclass(frozen=True, slots=True)
class Action:
    """One action as it was taken, for the record and to take it again.

    `target` is a value's or an op's name; `dim` is the dimension or factor.
    """

    kind: Literal["tile", "atomic", "choose", "skip"]
    target: str
    axis: str
    dim: int | None = None
    at: str = "everywhere"

    def __str__(self) -> str:
        """As the tactic would write it."""
        parts = [repr(self.target), repr(self.axis)]
        if self.dim is not None:
            parts.insert(1, str(self.dim))
        if self.at != "everywhere":
            parts.append(f"at={self.at!r}")
        return f"{self.kind}({', '.join(parts)})"


class Partition:
    """The partition under way, as tactics see it.

    Example:
        >>> class Rows:
        ...     def apply(self, partition):
        ...         for value in partition.values("params/**"):
        ...             if value.shape and value.shape[0] % 4 == 0:
        ...                 partition.tile(value, 0, "B")
    """

    def __init__(
        self,
        program: Program,
        mesh: Mesh,
        lowering: Callable[[State], Any] | None = None,
    ) -> None:
        """Start with nothing decided; `lowering` answers `collectives`."""
        self.program = program
        self.mesh = mesh
        self.state = State(Graph(program), mesh)
        self.names = Values(program)
        self.tactics: list[str] = []
        self.actions: list[Action] = []
        self._lowering = lowering
        self._stepped: set[tuple[int, int]] | None = None

    # Looking

    def values(self, pattern: Any = "**") -> list[Value]:
        """Arguments, tags and, by ``%`` address, inner values that match a pattern."""
        return [self.view(v, d) for _, v, d in self.names.matching(pattern)]

    def results(self, pattern: Any = "**") -> list[Value]:
        """Results that match a pattern on their names, ``out/…``."""
        return [self.view(v, d) for _, v, d in self.names.results_matching(pattern)]

    def view(self, value: int, dims: tuple[int, ...]) -> Value:
        """A value by number, with the dimensions that users see."""
        return Value(self.state, self.names, value, dims)

    def conflicts(self) -> list[OpView]:
        """Ops that propagation left, with the loops that they could have."""
        return [
            OpView(self.state, self.names, conflict)
            for axis in self.mesh
            for conflict in self.state.conflicts[axis]
        ]

    def collectives(self) -> dict[str, int]:
        """Collectives that the partition would have if it ended here."""
        if self._lowering is None:
            raise PartitionError("this partition has no lowering to count with")
        counts: dict[str, int] = self._lowering(self.state).collectives
        return counts

    def mark(self) -> Any:
        """A point that `undo` can return to."""
        return self.state.mark(), len(self.actions)

    def undo(self, mark: Any) -> None:
        """Take back every decision since the mark."""
        self.state.undo(mark[0])
        del self.actions[mark[1] :]

    def stepped_dims(self, value: Value) -> tuple[int, ...]:
        """Dimensions that a loop indexes one slice at a time (stacked layers)."""
        if self._stepped is None:
            self._stepped = find_stepped(self.state.graph)
        pairs = enumerate(value.dims)
        return tuple(d for d, n in pairs if (value.number, n) in self._stepped)

    # Acting

    def tile(self, value: Value | str, dim: int, axis: str) -> None:
        """Split a value along a dimension over a mesh axis."""
        size = self.state.require_axis(axis)
        for view in self._resolve(value):
            inner = self._dimension(view, dim)
            home = self.state.homes[axis][view.number]
            if home == inner:
                continue
            self._require_undecided(view, dim, axis, home)
            self._require_divisible(view, dim, inner, axis, size)
            self._choose_if_stuck(view, inner, axis)
            self.state.set_home(view.number, inner, axis, None)
            self.actions.append(Action("tile", view.unique_name, axis, dim))

    def atomic(
        self,
        value: Value | str,
        axis: str,
        at: Literal["everywhere", "uses"] = "everywhere",
    ) -> None:
        """Keep a value whole on an axis, everywhere or at its uses only."""
        self.state.require_axis(axis)
        if at not in ("everywhere", "uses"):
            raise PartitionError(f'atomic: at is "everywhere" or "uses", got {at!r}')
        for view in self._resolve(value):
            home = self.state.homes[axis][view.number]
            if home >= 0 and at == "everywhere":
                raise PartitionError(
                    f'{view.name} can\'t be kept whole on axis "{axis}": it is '
                    f"already tiled on dimension {view.outer(home)} "
                    f"{self._because(view, axis)}; a later tactic never undoes an "
                    'earlier one. atomic(..., at="uses") would gather it at its uses'
                )
            self.state.pin(view.number, axis, uses_only=at == "uses")
            self.actions.append(Action("atomic", view.unique_name, axis, at=at))

    def choose(self, op: OpView | str, factor: int, axis: str) -> None:
        """Put an op into a loop over one of its factors.

        Operands that are tiled otherwise are moved at this use. `op` is an op from
        `conflicts()`, or the address of one of its results.
        """
        size = self.state.require_axis(axis)
        node = op.node if isinstance(op, OpView) else self._producer(op)
        address = self.names.node_name(self.state.graph, node)
        nest = self.state.nests[node]
        fitting = [i for i, f in enumerate(nest.factors) if f.size % size == 0]
        if self.state.chosen[axis][node]:
            raise PartitionError(
                f'{address} already has a loop over axis "{axis}"; a later tactic '
                "never undoes an earlier one"
            )
        if factor not in fitting:
            raise PartitionError(
                f'{address} can\'t loop over factor {factor} on axis "{axis}" of size '
                f"{size}; factors that fit: {fitting or 'none'}"
            )
        self.state.enter(node, factor, axis, Origin(self.state.step))
        self.actions.append(Action("choose", address, axis, factor))

    def skip(self, value: Value, axis: str) -> None:
        """Put on record that a value was left alone."""
        self.actions.append(Action("skip", value.unique_name, axis))

    def propagate(self, axis: str | None = None) -> None:
        """Carry decisions as far as the rules tell, on one axis or on all."""
        if axis is not None:
            self.state.require_axis(axis)
        for one in [axis] if axis is not None else list(self.mesh):
            propagate(self.state, one)
        self.state.epoch += 1

    # Checks

    def _resolve(self, value: Value | str) -> Sequence[Value]:
        if isinstance(value, Value):
            return [value]
        found = self.values(value)
        if not found:
            raise PartitionError(
                f'no value matches "{value}"; nearest names: '
                f"{self.names.nearest(str(value))}"
            )
        return found

    def _dimension(self, view: Value, dim: int) -> int:
        rank = len(view.shape)
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise PartitionError(f"{view.name}: a dimension is a number, got {dim!r}")
        if not -rank <= dim < rank:
            allowed = f"use 0 to {rank - 1}" if rank else "a scalar can't be tiled"
            raise PartitionError(
                f"{view.name} is {view.dtype}{list(view.shape)}: dimension {dim} is "
                f"out of range, {allowed}"
            )
        return view.dims[dim % rank]

    def _require_undecided(self, view: Value, dim: int, axis: str, home: int) -> None:
        if home == UNDECIDED:
            return
        if home == WHOLE:
            raise PartitionError(
                f'{view.name} can\'t be tiled on dimension {dim} over axis "{axis}": '
                f"it is kept whole on that axis {self._because(view, axis)}"
            )
        raise PartitionError(
            f'{view.name} can\'t be tiled on dimension {dim} over axis "{axis}": it is '
            f"already tiled on dimension {view.outer(home)} over it "
            f"{self._because(view, axis)}; a later tactic never undoes an earlier one"
        )

    def _require_divisible(
        self, view: Value, dim: int, inner: int, axis: str, size: int
    ) -> None:
        left = self.state.local_size(view.number, inner)
        if left % size == 0:
            return
        whole = view.shape[dim]
        tiled = self.state.tilings[view.number][inner]
        within = f" ({left} left inside {', '.join(tiled)})" if tiled else ""
        fitting = [
            str(d)
            for d, d_inner in enumerate(view.dims)
            if self.state.local_size(view.number, d_inner) % size == 0
        ]
        taken = math.prod(self.mesh.axes[a] for a in tiled)
        multiple = -(-whole // (size * taken)) * size * taken
        raise PartitionError(
            f"{view.name} is {view.dtype}{list(view.shape)}: dimension {dim} of size "
            f'{whole}{within} does not divide over axis "{axis}" of size {size}; '
            f"dimensions that do: {', '.join(fitting) or 'none'}; "
            f"the next multiple is {multiple}"
        )

    def _because(self, view: Value, axis: str) -> str:
        origin = self.state.tactic_of(axis, view.number)
        if origin is None:
            return ""
        name = self.tactic_name(origin.step)
        if origin.node is None:
            return f'(by tactic "{name}")'
        via = self.names.node_name(self.state.graph, origin.node)
        return f'(by tactic "{name}", propagated through {via})'

    def tactic_name(self, step: int) -> str:
        """Name of the tactic that ran as this step."""
        return self.tactics[step] if step < len(self.tactics) else f"step {step}"

    def _choose_if_stuck(self, view: Value, inner: int, axis: str) -> None:
        """Tiling a stuck op's result means the one loop that gives this tiling."""
        node = self.program.producers.get(view.number)
        if node is None or not any(c.node == node for c in self.state.conflicts[axis]):
            return
        nest, size = self.state.nests[node], self.mesh[axis]
        position = self.state.graph.results[node].index(view.number)
        fitting = [
            number
            for number, factor in enumerate(nest.factors)
            if factor.size % size == 0 and factor.results[position] == inner
        ]
        if len(fitting) == 1:
            self.state.enter(node, fitting[0], axis, Origin(self.state.step))

    def _producer(self, address: str) -> int:
        found = self.names.matching(address)
        nodes = {self.program.producers.get(value) for _, value, _ in found} - {None}
        if len(nodes) != 1:
            raise PartitionError(
                f'"{address}" names {len(nodes)} ops; choose needs exactly one'
            )
        node = nodes.pop()
        assert node is not None
        return node
