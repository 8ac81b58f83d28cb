"""`State`: for each mesh axis, the loop of each op and the home of each value.

This is PartIR:Core in normal form. Every change goes on a trail, so that it can be
undone to a mark in time proportional to what changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from partir.errors import PartitionError
from partir.mesh import Mesh
from partir.partition.graph import Graph
from partir.rules.nest import UNDECIDED, WHOLE, Nest, Tiling
from partir.rules.reach import fills_all

Gathers = dict[tuple[str, int], str]

REST = "rest"
"""Said of gathers: there is none where moving something else sends fewer bytes."""
"""Of an axis and a value: whether what is gathered is kept or gathered again."""


class Origin(NamedTuple):
    """What made a decision: the step (tactic), and the node that passed it on.

    `epoch` counts propagations: axes of a dimension nest in its order.
    """

    step: int
    node: int | None = None  # None: an action of the tactic itself
    epoch: int = 0


_origin = partial(tuple.__new__, Origin)  # what `Origin` does, at half the price


@dataclass(frozen=True, slots=True)
class Conflict:
    """An op that propagation left: its evidence asks for different loops."""

    node: int
    axis: str
    evidence: tuple[tuple[int, int, Origin | None], ...]  # value, dimension, origin


class State:
    """The partition so far. Cheap to copy, cheap to undo."""

    def __init__(self, graph: Graph, mesh: Mesh) -> None:
        """Nothing decided."""
        self.graph = graph
        self.mesh = mesh
        self.step = 0
        self.epoch = 0
        program = graph.program
        count = len(program.types)
        self.nests: list[Nest] = list(graph.nests)
        self.tilings: list[Tiling] = [((),) * len(t.shape) for t in program.types]
        # A value's home as its producer sees it, and as its readers do: they differ
        # where a value is kept whole at its uses only.
        self.homes = {axis: [UNDECIDED] * count for axis in mesh}
        self.seen = {axis: [UNDECIDED] * count for axis in mesh}
        # Dimensions that the model itself keeps an axis away from.
        self.closed: dict[tuple[str, int], frozenset[int]] = {}
        # Arguments and results that callers hand over padded.
        self.padded: dict[int, bool] = {}
        self.gathers: Gathers = {}
        # Products that were put into the loops of an operand that is not gathered, or
        # of their result; after completion only.
        self.resting: frozenset[int] = frozenset()
        self.chosen = {axis: bytearray(len(self.nests)) for axis in mesh}
        self.value_origins: dict[str, dict[int, Origin]] = {axis: {} for axis in mesh}
        self.node_origins: dict[str, dict[int, Origin]] = {axis: {} for axis in mesh}
        self.dirty: dict[str, set[int]] = {axis: set() for axis in mesh}
        # Nodes that propagation left, and those of them whose evidence is contrary.
        self.left: dict[str, tuple[int, ...]] = dict.fromkeys(mesh, ())
        self.conflicts: dict[str, tuple[Conflict, ...]] = dict.fromkeys(mesh, ())
        self._trail: list[tuple[Any, Any, Any]] = []
        self._order = {axis: number for number, axis in enumerate(mesh)}

    def copy(self) -> State:
        """An independent copy, without the trail."""
        made = State.__new__(State)
        made.__dict__.update(self.__dict__)
        made.nests, made.tilings = list(self.nests), list(self.tilings)
        made.homes = {a: list(h) for a, h in self.homes.items()}
        made.seen = {a: list(h) for a, h in self.seen.items()}
        made.chosen = {a: bytearray(c) for a, c in self.chosen.items()}
        made.closed, made.padded = dict(self.closed), dict(self.padded)
        made.gathers = dict(self.gathers)
        made.value_origins = {a: dict(o) for a, o in self.value_origins.items()}
        made.node_origins = {a: dict(o) for a, o in self.node_origins.items()}
        made.dirty = {a: set(d) for a, d in self.dirty.items()}
        made.left, made.conflicts = dict(self.left), dict(self.conflicts)
        made._trail = []
        return made

    # The trail

    _ABSENT = object()

    def _put(self, table: Any, key: Any, value: Any) -> None:
        """Set an entry of a dictionary."""
        self._trail.append((table, key, table.get(key, self._ABSENT)))
        table[key] = value

    def mark(self) -> tuple[int, int, int]:
        """A point to return to."""
        return len(self._trail), self.step, self.epoch

    def undo(self, mark: tuple[int, int, int]) -> None:
        """Take back everything since the mark."""
        length, self.step, self.epoch = mark
        while len(self._trail) > length:
            table, key, old = self._trail.pop()
            if old is self._ABSENT:
                del table[key]
            else:
                table[key] = old
        for dirty in self.dirty.values():
            dirty.clear()

    # Questions

    def local_size(self, value: int, dim: int) -> int:
        """What is left of a dimension inside the axes that tile it."""
        axes, left = self.mesh.axes, self.graph.program.types[value].shape[dim]
        for outer in self.tilings[value][dim]:
            left = -(-left // axes[outer])
        return left

    def divides(self, value: int, dim: int, axis: str) -> bool:
        """Whether an axis can tile what is left of a dimension; never an empty one."""
        left = self.local_size(value, dim)
        return left > 0 and left % self.mesh.axes[axis] == 0

    def fits(self, value: int, dim: int, axis: str) -> bool:
        """Whether an axis can tile it, be it with a last tile that is short.

        Not what callers hand over, unless padded: jax cuts arrays into equal tiles.
        """
        axes, left = self.mesh.axes, self.graph.program.types[value].shape[dim]
        for outer in self.tilings[value][dim]:  # often called: `local_size` by hand
            left = -(-left // axes[outer])
        parts = axes[axis]
        if left % parts == 0:
            return left > 0
        equal = value in self.graph.handed_over and value not in self.padded
        return not equal and fills_all(left, parts)

    def fills(self, value: int, dim: int, axis: str) -> bool:
        """Whether an axis could tile it with a last tile that is short, not empty."""
        return fills_all(self.local_size(value, dim), self.mesh.axes[axis])

    def known(self, node: int, axis: str) -> tuple[int, ...]:
        """Homes around a node on an axis, operands then results."""
        seen, homes = self.seen[axis], self.homes[axis]
        return tuple(
            [seen[v] for v in self.graph.operands[node]]
            + [homes[v] for v in self.graph.results[node]]
        )

    # Decisions

    def set_home(self, value: int, dim: int, axis: str, node: int | None) -> bool:
        """Tile a value at home; False if it is decided or does not fit."""
        homes = self.homes[axis]
        if homes[value] != UNDECIDED or not self.fits(value, dim, axis):
            return False
        graph = self.graph
        if graph.hidden and dim >= graph.hidden.get(value, dim + 1):
            return False
        if self.closed and dim in self.closed.get((axis, value), ()):
            return False
        trail, seen, tiling = self._trail, self.seen[axis], self.tilings[value]
        trail.append((homes, value, UNDECIDED))
        homes[value] = dim
        if seen[value] == UNDECIDED:
            trail.append((seen, value, UNDECIDED))
            seen[value] = dim
        origins = self.value_origins[axis]  # often called: no `_put`
        trail.append((origins, value, origins.get(value, self._ABSENT)))
        origins[value] = _origin((self.step, node, self.epoch))
        trail.append((self.tilings, value, tiling))
        axes = self._nested(value, tiling[dim], axis) if tiling[dim] else (axis,)
        self.tilings[value] = (*tiling[:dim], axes, *tiling[dim + 1 :])
        self.dirty[axis].update(graph.neighbours[value])
        return True

    def _nested(self, value: int, axes: tuple[str, ...], axis: str) -> tuple[str, ...]:
        """Later tactics nest deeper; within one, axes stand in the mesh's order."""
        origins, order = self.value_origins, self._order

        def key(one: str) -> tuple[int, int]:
            return origins[one][value].epoch, order[one]

        return tuple(sorted((*axes, axis), key=key))

    def pin(self, value: int, axis: str, uses_only: bool) -> None:
        """Keep a value whole on an axis, everywhere or at its uses."""
        homes, seen = self.homes[axis], self.seen[axis]
        if not uses_only and homes[value] == UNDECIDED:
            self._trail.append((homes, value, UNDECIDED))
            homes[value] = WHOLE
        self._trail.append((seen, value, seen[value]))
        seen[value] = WHOLE
        if homes[value] < 0:  # a tiling remembers who decided it, and when
            origin = Origin(self.step, None, self.epoch)
            self._put(self.value_origins[axis], value, origin)
        self.dirty[axis].update(self.graph.neighbours[value])

    def pad(self, value: int) -> None:
        """Callers hand over a value with its tiles padded to be equal."""
        self._put(self.padded, value, True)

    def close(self, value: int, axis: str, dims: frozenset[int]) -> bool:
        """Keep an axis away from these dimensions of a value.

        If they are all that it has, it is whole at home; its readers may slice it,
        which is free. False if it is decided, or closed already.
        """
        homes = self.homes[axis]
        if homes[value] != UNDECIDED or (axis, value) in self.closed:
            return False
        self._put(self.closed, (axis, value), dims)
        if len(dims) == len(self.tilings[value]):
            self._trail.append((homes, value, UNDECIDED))
            homes[value] = WHOLE
            origin = Origin(self.step, None, self.epoch)
            self._put(self.value_origins[axis], value, origin)
            self.dirty[axis].update(self.graph.neighbours[value])
        return True

    def say_gathered(self, value: int, axis: str, how: str) -> None:
        """Keep what is gathered of a value over an axis, or gather it again."""
        self._put(self.gathers, (axis, value), how)

    def enter(
        self, node: int, factor: int, axis: str, origin: Origin, results: bool = True
    ) -> None:
        """Put a node into a loop over `axis`, and tile what the loop names.

        Without `results`, these are left for somebody else to decide.
        """
        nest = self.nests[node]
        trail, chosen, seen = self._trail, self.chosen[axis], self.seen[axis]
        trail.append((chosen, node, chosen[node]))
        chosen[node] = 1
        trail.append((self.nests, node, nest))
        self.nests[node] = nest.inside(axis, self.mesh.axes[axis], factor)
        origins = self.node_origins[axis]
        trail.append((origins, node, origins.get(node, self._ABSENT)))
        origins[node] = origin
        homes, operands = self.homes[axis], self.graph.operands[node]
        read, made = nest.named(factor)
        for position, dim in read:
            value = operands[position]
            if seen[value] == UNDECIDED and homes[value] == UNDECIDED:
                self.set_home(value, dim, axis, node)
        for position, dim in made if results else ():
            value = self.graph.results[node][position]
            if homes[value] == UNDECIDED:
                self.set_home(value, dim, axis, node)

    def fix(self, node: int, nest: Nest, origin: Origin) -> None:
        """Put a node into loops that are given, and tile what they name."""
        self._trail.append((self.nests, node, self.nests[node]))
        self.nests[node] = nest
        for loop in nest.loops:
            chosen = self.chosen[loop.axis]
            self._trail.append((chosen, node, chosen[node]))
            chosen[node] = 1
            self._put(self.node_origins[loop.axis], node, origin)
            values = self.graph.operands[node] + self.graph.results[node]
            for position, value in enumerate(values):
                dim = loop.factor.dim(position)
                if dim is not None:
                    self.set_home(value, dim, loop.axis, None)

    def record_left(
        self, axis: str, left: Iterable[int], conflicts: Iterable[Conflict]
    ) -> None:
        """Keep what propagation could not decide on this axis."""
        self._put(self.left, axis, tuple(left))
        self._put(self.conflicts, axis, tuple(conflicts))

    def tactic_of(self, axis: str, value: int) -> Origin | None:
        """What decided a value's home."""
        return self.value_origins[axis].get(value)

    def require_axis(self, axis: str) -> int:
        """Size of an axis, or a PartitionError naming the mesh's."""
        if not isinstance(axis, str):
            raise PartitionError(f"an axis is a name, got {axis!r}")
        return self.mesh[axis]
