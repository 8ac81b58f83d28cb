"""`Partition`: what a tactic is handed. Actions are checked before anything changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from partir.errors import PartitionError
from partir.ir.core import Program
from partir.ir.garbage import collection_paused
from partir.mesh import Mesh
from partir.partition.figures import Counted, Figures, Simulator
from partir.partition.graph import Graph
from partir.partition.patterns import Pattern, pattern_text
from partir.partition.propagate import propagate
from partir.partition.requirements import Requirements
from partir.partition.state import REST, Origin, State
from partir.partition.values import OpView, Value, Values

Kind = Literal["tile", "atomic", "choose", "gathered", "skip", "propagate"]
GATHERED = ("keep", "again", REST)


Share = Callable[[Callable[[], bytes]], bytes]
"""Gives all processes what the first of them makes."""


@dataclass(frozen=True, slots=True, repr=False)
class Action:
    """One action as it was taken, for the record and to take it again.

    `target` is a value's or an op's name; `dim` is the dimension or factor. A tactic
    that propagates between its actions has that on record too, since it orders axes.
    `reason` says why a value was left alone. `at` is where a value is kept whole, or
    how long what is gathered of it lives.
    """

    kind: Kind
    target: str
    axis: str
    dim: int | None = None
    at: str = "everywhere"
    reason: str = ""

    def __repr__(self) -> str:
        """As the tactic would write it."""
        parts = [repr(text) for text in (self.target, self.axis) if text]
        if self.dim is not None:
            parts.insert(1, str(self.dim))
        if self.kind == "tile" and self.at == "padded":
            parts.append("padded=True")
        elif self.kind == "gathered":
            parts.append(repr(self.at))
        elif self.at != "everywhere":
            parts.append(f"at={self.at!r}")
        return f"{self.kind}({', '.join(parts)})"

    def __str__(self) -> str:
        """The same, and the reason."""
        return f"{self!r}  # {self.reason}" if self.reason else repr(self)


class Mark(NamedTuple):
    """A point to return to: of the state, of the records, and what was propagated."""

    state: tuple[int, int, int]
    lengths: tuple[int, int, int]  # of actions, of what was found, of notes
    propagated: tuple[tuple[int, str], ...]


class Partition(Requirements):
    """The partition under way, as tactics see it.

    Example:
        >>> class Rows:
        ...     def apply(self, partition):
        ...         for value in partition.values("params/**"):
        ...             if value.shape and value.shape[0] % 4 == 0:
        ...                 partition.tile(value, 0, "B")
    """

    @collection_paused
    def __init__(
        self,
        program: Program,
        mesh: Mesh,
        lowering: Callable[[State], Counted] | None = None,
        setting: Simulator | None = None,
        share: Share | None = None,
        start: State | None = None,
        names: Values | None = None,
    ) -> None:
        """Start with nothing decided, or from a state that others have come to.

        `lowering` answers `collectives`; `setting` has the device, which arguments
        are donated, and estimates what the lowering gives; `share`, if there may be
        several processes, gives all of them what the first one makes.
        """
        super().__init__(start or State(Graph(program), mesh), names or Values(program))
        self.program = program
        self.mesh = mesh
        self.actions: list[Action] = []
        self.found: list[Any] = []  # manual tactics that say what automatic ones found
        self.notes: list[str] = []
        self._propagated: list[tuple[int, str]] = []
        self._lowering, self.setting, self.share = lowering, setting, share

    # Looking

    def values(self, pattern: Pattern = "**") -> list[Value]:
        """Arguments, tags and, by ``%`` address, inner values that match a pattern."""
        return [self.view(*named) for named in self.names.matching(pattern)]

    def results(self, pattern: Pattern = "**") -> list[Value]:
        """Results that match a pattern on their names, ``out/…``."""
        return [self.view(*named) for named in self.names.results_matching(pattern)]

    def view(self, name: str, value: int, dims: tuple[int, ...]) -> Value:
        """A value by number, with the name and the dimensions that users see."""
        return Value(self.state, self.names, value, dims, name)

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
        return self._lowering(self.state).collectives

    def estimate(self, device: object = None) -> Figures:
        """Time and memory if the partition ended here, on a device by name or spec."""
        if self._lowering is None or self.setting is None:
            raise PartitionError("this partition has no simulator to estimate with")
        return self.setting.estimate(self._lowering(self.state), device)

    def mark(self) -> Mark:
        """A point that `undo` can return to."""
        lengths = len(self.actions), len(self.found), len(self.notes)
        return Mark(self.state.mark(), lengths, tuple(self._propagated))

    def undo(self, mark: Mark) -> None:
        """Take back every decision since the mark."""
        if not isinstance(mark, Mark):
            raise self._refused(f"undo takes what mark() gave, got {mark!r}")
        state, (actions, found, notes), propagated = mark
        self.state.undo(state)
        del self.actions[actions:], self.found[found:], self.notes[notes:]
        self._propagated = list(propagated)

    def scanned_dims(self, value: Value, axis: str) -> tuple[int, ...]:
        """Dimensions that a loop indexes one slice at a time (stacked layers).

        Also those whose tiles over one more axis would be such slices.
        """
        graph, size = self.state.graph, self.mesh[axis]

        def stepped(dim: int, number: int) -> bool:
            outside = graph.stacked.get((value.number, number))
            tiles = value.shape[dim] // max(value.local_shape[dim], 1) * size
            inner = outside is not None and outside % tiles != 0
            return inner or (value.number, number) in graph.scanned

        return tuple(d for d, n in enumerate(value.dims) if stepped(d, n))

    def note(self, text: str) -> None:
        """Say something of this tactic to whoever reads the partition."""
        self.notes.append(text)

    # Acting

    def tile(
        self, value: Value | str, dim: int, axis: str, padded: bool = False
    ) -> None:
        """Split a value along a dimension over a mesh axis.

        `padded`: an argument or result may have a last tile that is short; callers then
        hand it over padded, and get it so.
        """
        size = self.require_axis(axis)
        found = [(view, self._dimension(view, dim)) for view in self._resolve(value)]
        homes = self.state.homes[axis]
        wanted = [(view, inner) for view, inner in found if homes[view.number] != inner]
        for view, inner in wanted:
            self._require_undecided(view, inner, axis, homes[view.number])
            self._require_open(view, inner, axis)
            if not padded or not self.state.fills(view.number, inner, axis):
                self._require_divisible(view, inner, axis, size)
        for view, inner in wanted:
            if padded:
                self.state.pad(view.number)
            self._choose_if_stuck(view, inner, axis)
            self.state.set_home(view.number, inner, axis, None)
            at = "padded" if padded else "everywhere"
            self._record(Action("tile", view.unique_name, axis, inner, at))

    def atomic(
        self,
        value: Value | str,
        axis: str,
        at: Literal["everywhere", "uses"] = "everywhere",
    ) -> None:
        """Keep a value whole on an axis, everywhere or at its uses only."""
        self.require_axis(axis)
        if at not in ("everywhere", "uses"):
            raise self._refused(f'atomic: at is "everywhere" or "uses", got {at!r}')
        views = self._resolve(value)
        for view in views:
            home = self.state.homes[axis][view.number]
            if home >= 0 and at == "everywhere":
                raise self._refused(
                    f'{view.name} can\'t be kept whole on axis "{axis}": it is already '
                    f"tiled on dimension {view.outer(home)} over it "
                    f"{self._because(view, axis)}. A later tactic never undoes an "
                    f"earlier one: keep it whole {self._before(view, axis)}, or, in a "
                    'tactic of your own, gather it at its uses: atomic(…, at="uses")'
                )
        for view in views:
            self.state.pin(view.number, axis, uses_only=at == "uses")
            self._record(Action("atomic", view.unique_name, axis, at=at))

    def choose(self, op: OpView | str, factor: int, axis: str) -> None:
        """Put an op into a loop over one of its factors.

        Operands that are tiled otherwise are moved at this use. `op` is an op from
        `conflicts()`, or the address of one of its results.
        """
        size = self.require_axis(axis)
        node = op.node if isinstance(op, OpView) else self._producer(op)
        address = self.names.node_name(self.state.graph, node)
        nest = self.state.nests[node]
        fitting = [i for i, f in enumerate(nest.factors) if f.fits(size)]
        if self.state.chosen[axis][node]:
            raise self._refused(
                f'{address} already has a loop over axis "{axis}". A later tactic '
                "never undoes an earlier one: choose before that"
            )
        if factor not in fitting:
            raise self._refused(
                f'{address} can\'t loop over factor {factor!r} on axis "{axis}" of '
                f"size {size}; factors that fit: "
                f"{', '.join(map(str, fitting)) or 'none'}"
            )
        self.state.enter(node, factor, axis, Origin(self.state.step))
        self._record(Action("choose", address, axis, factor))

    def gathered(self, value: Value | str, axis: str, how: str) -> None:
        """Keep what is gathered of a value over an axis, or gather it again, or don't.

        `how` is "keep" (one gather for all readers), "again" (one for each) or "rest"
        (none where bringing other operands to its tiles sends fewer bytes).
        """
        self.require_axis(axis)
        if how not in GATHERED:
            raise self._refused(f'gathered: say "keep", "again" or "rest", got {how!r}')
        for view in self._resolve(value):
            self.state.say_gathered(view.number, axis, how)
            self._record(Action("gathered", view.unique_name, axis, at=how))

    def skip(self, value: Value, axis: str, reason: str = "") -> None:
        """Put on record that a value was left alone, and why."""
        self._record(Action("skip", value.unique_name, axis, reason=reason))

    def propagate(self, axis: str | None = None) -> None:
        """Carry decisions as far as the rules tell, on one axis or on all."""
        if axis is not None:
            self.require_axis(axis)
        if any(one and step == self.state.step for step, one in self._propagated):
            self._record_propagations()  # one axis before another: that orders them
        for one in [axis] if axis is not None else list(self.mesh):
            propagate(self.state, one)
        self.state.epoch += 1
        self._propagated.append((self.state.step, axis or ""))

    def _record(self, action: Action) -> None:
        """Keep an action, and the propagations of this tactic that went before it."""
        self._record_propagations()
        self.actions.append(action)

    def _record_propagations(self) -> None:
        for step, axis in self._propagated:
            if step == self.state.step:
                self.actions.append(Action("propagate", "", axis))
        self._propagated.clear()

    def _resolve(self, value: Value | str) -> Sequence[Value]:
        if isinstance(value, Value):
            if not value.belongs_to(self.names):
                raise self._refused(
                    f"{value.name} is a value of another program: ask this partition "
                    "for its values"
                )
            return [value]
        found = self.values(value)
        if not found:
            text = pattern_text(value)
            raise self._refused(
                f'no argument or tag matches "{text}"; nearest names: '
                f"{self.names.nearest(text)}"
            )
        return found

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
            if factor.fits(size) and factor.results[position] == inner
        ]
        if len(fitting) == 1:
            self.state.enter(node, fitting[0], axis, Origin(self.state.step))

    def _producer(self, address: str) -> int:
        """The op of an address, as `conflicts()` and the record name it."""
        graph, text = self.state.graph, pattern_text(address)
        carried = range(len(self.program.ops), len(graph.results))
        for node in carried if text.startswith("the state carried in ") else ():
            if self.names.node_name(graph, node) == text:
                return node
        found = self.names.matching(address)
        makers = self.program.producers
        nodes = {makers[value] for _, value, _ in found if value in makers}
        if len(nodes) != 1:
            many = f"{len(nodes)} ops" if nodes else "no op"
            raise self._refused(
                f'choose: "{text}" names {many}, and exactly one is needed; nearest '
                f"addresses: {self.names.nearest('%' + text.removeprefix('%'))}"
            )
        return nodes.pop()
