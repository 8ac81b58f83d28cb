"""Moves of the search: one decision over one axis, in every repetition at once.

A move tiles a named dimension, or the first dimension that divides, of a group of
arguments; propagation does the rest. Groups come from the graph alone: *inputs* are
arguments that no result succeeds, *state* those that one does; *weights* are state that
more than the update of the state reads. A move may keep weights whole and tile the rest
of the state. Where propagation got stuck, a move chooses one of the loops asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from partir.partition.graph import Graph
from partir.partition.propagate import propagate
from partir.partition.state import Origin, State
from partir.rules.factor import Factor
from partir.rules.nest import UNDECIDED
from partir.search.fold.folded import Folded
from partir.search.fold.heavy_readers import heavy_reads
from partir.search.space.dimensions import Dim, Name, Names
from partir.search.space.shared_axis import Loops, meeting_loops

_LARGE = 1 / 64  # of the largest argument
_MOST_NAMES = 16  # named dimensions of state that are tried, those of most bytes
_MOST_MEETING = 6  # of those, tried together with inputs


@dataclass(frozen=True, slots=True)
class Move:
    """Values to keep whole, dimensions to tile, or a loop to choose, over one axis.

    `name` is the named dimension's number (-1: any), `group` what it is taken of. Of
    the loops, the `first` few go before the others.
    """

    axis: str
    group: str
    name: int = -1
    tiles: tuple[Dim, ...] = ()
    whole: tuple[int, ...] = ()
    loops: Loops = ()
    first: int = 0

    @property
    def key(self) -> tuple[str, str, int]:
        """What it is, whatever the state: for statistics."""
        return self.axis, self.group, self.name

    def apply(self, state: State) -> bool:
        """Take it and propagate; False if it changed nothing."""
        homes, changed = state.homes[self.axis], False
        for value in self.whole:
            if homes[value] == UNDECIDED:
                state.pin(value, self.axis, uses_only=False)
        for node, factor in self.loops:
            changed |= self._enter(state, node, factor)
        for value, dim in self.tiles:
            changed |= state.set_home(value, dim, self.axis, None)
        if changed:
            for axis in state.mesh:
                propagate(state, axis)
            state.epoch += 1
        return changed

    def fitting(self, state: State, node: int, factor: Factor) -> int | None:
        """Number of the loop if the op can have it on this axis."""
        nest, size = state.nests[node], state.mesh.axes[self.axis]
        number = nest.factor_like(factor)
        if number is None or nest.factors[number].size % size:
            return None
        return number

    def _enter(self, state: State, node: int, factor: Factor) -> bool:
        number = self.fitting(state, node, factor)
        if number is None or state.chosen[self.axis][node]:
            return False
        state.enter(node, number, self.axis, Origin(state.step))
        return True


class Moves:
    """All moves of a folded program over some axes."""

    def __init__(
        self,
        folded: Folded,
        graph: Graph,
        names: Names,
        axes: Iterable[str],
        allowed: set[int] | None = None,
    ) -> None:
        """`allowed` are the arguments (folded values) that may be tiled; None: all."""
        self.folded, self.graph = folded, graph
        self.names, self._where = names.names, names.where
        self.axes = tuple(axes)
        arguments = graph.program.body.arguments
        self.arguments = [v for v in arguments if allowed is None or v in allowed]
        self.inner = allowed is None

    @cached_property
    def fixed(self) -> tuple[Move, ...]:
        """Moves that are there in any state."""
        return tuple(dict.fromkeys(self._all()))

    def _all(self) -> Iterator[Move]:
        for axis in self.axes:
            for name in self._tried:
                yield from self._named(axis, name)
            yield from self._sharded(axis)
            yield from self._together(axis)

    # Groups of arguments

    @cached_property
    def state_values(self) -> set[int]:
        """Arguments that a result succeeds; without any, what looks like weights.

        Those are the arguments that are the second operand of what multiplies them.
        """
        program, handed = self.graph.program, self.folded.times.handed
        ties = [t for t in program.ties if t.owner is None]
        tied = {t.targets[0] for t in ties if t.sources[0] not in handed}
        if tied:
            return tied
        types = program.types
        count = len(self.folded.times.results)
        results = {types[port.value] for port in program.results[:count]}
        alike = {v for v in program.body.arguments if types[v] in results}
        return alike or {v for v in program.body.arguments if self._second(v)}

    def _second(self, value: int) -> bool:
        """Whether heavy ops read it behind another operand."""
        return any(position > 0 for position in heavy_reads(self.graph.program, value))

    @cached_property
    def weights(self) -> set[int]:
        """State that is read by more than elementwise ops."""
        program = self.graph.program
        return {
            v for v in self.state_values if any(True for _ in heavy_reads(program, v))
        }

    @cached_property
    def large(self) -> set[int]:
        """State of a size that matters."""
        types = self.graph.program.types
        state = [v for v in self.arguments if v in self.state_values]
        most = max((types[v].bytes for v in state), default=0)
        return {v for v in state if types[v].bytes >= most * _LARGE}

    # Moves

    def _named(self, axis: str, name: Name) -> Iterator[Move]:
        allowed = set(self.arguments)
        dims = [d for d in name.arguments if d[0] in allowed and self._free(d)]
        if not dims:
            if name.inner is not None and self.inner and self._free(name.inner):
                twins = self._with_twins(name.inner)
                yield Move(axis, "inside", name.number, tuple(twins))
            return
        for turn in ("", " (the other dimension)"):
            chosen = _one_each(dims, last=bool(turn))
            if turn and chosen == _one_each(dims, last=False):
                return
            yield from self._groups(axis, name.number, chosen, turn)

    def _groups(
        self, axis: str, number: int, dims: list[Dim], turn: str
    ) -> Iterator[Move]:
        state, weights, large = self.state_values, self.weights, self.large
        kept = [d for d in dims if d[0] in state]
        given = [d for d in dims if d[0] not in state]
        if given:
            yield Move(axis, "inputs" + turn, number, tuple(given))
        if kept:
            yield Move(axis, "state" + turn, number, tuple(kept))
        if kept and given:
            yield Move(axis, "all" + turn, number, tuple(dims))
        if any(v in large for v, _ in kept) and any(v not in large for v, _ in kept):
            some = tuple(d for d in kept if d[0] in large)
            yield Move(axis, "large state" + turn, number, some)
        rest = tuple(d for d in kept if d[0] not in weights and d[0] in large)
        whole = tuple(v for v, _ in kept if v in weights)
        if rest and whole:
            yield Move(axis, "optimizer state" + turn, number, rest, whole)

    def _sharded(self, axis: str) -> Iterator[Move]:
        """State by the first dimension that divides, whatever its name."""
        types, state = self.graph.program.types, self.state_values
        dims = [
            (v, d)
            for v in self.arguments
            if v in state
            for d in range(len(types[v].shape))
            if self._free((v, d))
        ]
        large = tuple(d for d in dims if d[0] in self.large)
        yield Move(axis, "large state, first dimension that divides", tiles=large)
        yield Move(axis, "state, first dimension that divides", tiles=tuple(dims))
        rest = tuple(d for d in large if d[0] not in self.weights)
        whole = tuple(v for v in self.arguments if v in self.weights)
        if rest and whole:
            text = "optimizer state, first dimension that divides"
            yield Move(axis, text, tiles=rest, whole=whole)

    def _together(self, axis: str) -> Iterator[Move]:
        """Inputs along one name and weights along another at once, meeting inside."""
        named = [(n, self._named_dims(n)) for n in self._tried]
        inputs = self._inputs
        for one, dims in named:
            given = tuple(d for d in dims if d[0] in inputs)
            for other, more in named[:_MOST_MEETING] if given else ():
                kept = tuple(d for d in more if d[0] in self.large)
                if other is one or not kept:
                    continue
                group = f"inputs, with large state along dimension {other.number}"
                core, rim = meeting_loops(
                    self.graph,
                    self._where,
                    [v for v, _ in kept if v in self.weights],
                    inner=other.number,
                    outer=one.number,
                )
                if core or rim:
                    yield Move(
                        axis,
                        group,
                        one.number,
                        kept + given,
                        loops=core + rim,
                        first=len(core),
                    )

    @cached_property
    def _tried(self) -> list[Name]:
        """Names of the most bytes, and all that inputs have."""
        inputs = self._inputs
        return [
            name
            for number, name in enumerate(self.names)
            if number < _MOST_NAMES or any(v in inputs for v, _ in name.arguments)
        ]

    @cached_property
    def _inputs(self) -> set[int]:
        return set(self.arguments) - self.state_values

    def _named_dims(self, name: Name) -> list[Dim]:
        allowed = set(self.arguments)
        dims = [d for d in name.arguments if d[0] in allowed and self._free(d)]
        return _one_each(dims, last=False)

    def _free(self, dim: Dim) -> bool:
        """Not stepped through by a loop."""
        return dim not in self.graph.stepped

    def _with_twins(self, dim: Dim) -> Iterator[Dim]:
        yield dim
        for one, other in self.folded.twins:
            if dim[0] in (one, other):
                yield (other if dim[0] == one else one), dim[1]

    # Where propagation got stuck

    def choices(self, state: State, most: int = 4) -> list[Move]:
        """Loops that stuck ops could have: for all at once, for the heaviest alone."""
        alike: dict[tuple[object, ...], list[tuple[int, Factor]]] = {}
        weight: dict[tuple[object, ...], float] = {}
        together: dict[tuple[str, str], list[tuple[int, Factor]]] = {}
        types, graph = state.graph.program.types, state.graph
        for axis in self.axes:
            size = state.mesh.axes[axis]
            for conflict in state.conflicts[axis]:
                node = conflict.node
                if graph.op(node) is None:  # what is carried follows what makes it
                    continue
                known = state.known(node, axis)
                values = graph.operands[node] + graph.results[node]
                bytes_ = sum(types[v].bytes for v in values)
                nest = state.nests[node]
                numbers = nest.supported(size, known)
                factors = [nest.factors[n].resized(0) for n in numbers]
                together.setdefault((axis, "first"), []).append((node, factors[0]))
                together.setdefault((axis, "last"), []).append((node, factors[-1]))
                for factor in factors:
                    key = (axis, graph.signatures[node], known, factor)
                    alike.setdefault(key, []).append((node, factor))
                    weight[key] = weight.get(key, 0.0) + bytes_
        order = sorted(alike, key=lambda key: -weight[key])[:most]
        return [
            *(
                Move(axis, f"all stuck ops by their {which} loop", loops=tuple(loops))
                for (axis, which), loops in together.items()
            ),
            *(
                Move(str(key[0]), "a stuck op", -2 - number, loops=tuple(alike[key]))
                for number, key in enumerate(order)
            ),
        ]


def _one_each(dims: list[Dim], last: bool) -> list[Dim]:
    """The first, or the last, of the dimensions that a value has of one name."""
    chosen: dict[int, Dim] = {}
    for dim in dims:
        if last or dim[0] not in chosen:
            chosen[dim[0]] = dim
    return list(chosen.values())
