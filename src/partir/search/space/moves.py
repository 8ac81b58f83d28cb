"""Moves of the search that are there whatever was decided before.

A move tiles a named dimension, or the first dimension that divides, of a group of
arguments; propagation does the rest. It may leave weights whole and tile the rest of
the state, or split inputs and weights along two dimensions over one axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from partir.partition.graph import Graph
from partir.search.fold.folded import Folded
from partir.search.space.argument_groups import ArgumentGroups
from partir.search.space.dimensions import Dim, NamedDim, NamedDims
from partir.search.space.move import Move
from partir.search.space.shared_axis import shared_axis_loops

_MOST_NAMED = 16  # named dimensions of state that are tried, those of most bytes
_MOST_SHARING = 6  # of those, tried together with inputs


class Moves:
    """All moves of a folded program over some axes, but for those of stuck ops."""

    def __init__(
        self,
        folded: Folded,
        graph: Graph,
        dimensions: NamedDims,
        axes: Iterable[str],
        allowed: set[int] | None = None,
    ) -> None:
        """`allowed` are the arguments (folded values) that may be tiled; None: all."""
        self.folded, self.graph = folded, graph
        self._dimensions = dimensions
        self.axes = tuple(axes)
        self.groups = ArgumentGroups(folded, graph, allowed)
        self._inner = allowed is None  # values inside may be named as well

    @cached_property
    def fixed(self) -> tuple[Move, ...]:
        """Moves that are there in any state."""
        return tuple(dict.fromkeys(self._all()))

    def _all(self) -> Iterator[Move]:
        for axis in self.axes:
            for dimension in self._tried:
                yield from self._named(axis, dimension)
            yield from self._sharded(axis)
            yield from self._sharing(axis)

    # Along a named dimension

    def _named(self, axis: str, dimension: NamedDim) -> Iterator[Move]:
        dims = self._places(dimension)
        if not dims:
            inner = dimension.inner
            if inner is not None and self._inner and self._free(inner):
                twins, late = tuple(self._with_twins(inner)), dimension.windowed
                yield Move(axis, "inside", dimension.number, twins, late=late)
            return
        for turn in ("", " (the other dimension)"):
            chosen = _one_each(dims, last=bool(turn))
            if turn and chosen == _one_each(dims, last=False):
                return
            yield from self._of_groups(axis, dimension, chosen, turn)

    def _of_groups(
        self, axis: str, dimension: NamedDim, dims: list[Dim], turn: str
    ) -> Iterator[Move]:
        number, late = dimension.number, dimension.windowed
        weights, large = self.groups.weights, self.groups.large_state
        state = [d for d in dims if d[0] in self.groups.state]
        inputs = [d for d in dims if d[0] not in self.groups.state]
        if inputs:
            yield Move(axis, "inputs" + turn, number, tuple(inputs), late=late)
        if state:
            yield Move(axis, "state" + turn, number, tuple(state))
        if state and inputs:
            yield Move(axis, "all" + turn, number, tuple(dims))
        if any(v in large for v, _ in state) and any(v not in large for v, _ in state):
            some = tuple(d for d in state if d[0] in large)
            yield Move(axis, "large state" + turn, number, some)
        rest = tuple(d for d in state if d[0] not in weights and d[0] in large)
        whole = tuple(v for v, _ in state if v in weights)
        if rest and whole:
            yield Move(axis, "optimizer state" + turn, number, rest, whole)

    def _places(self, dimension: NamedDim) -> list[Dim]:
        """Where allowed arguments have it."""
        allowed = set(self.groups.allowed)
        return [d for d in dimension.arguments if d[0] in allowed and self._free(d)]

    @cached_property
    def _tried(self) -> list[NamedDim]:
        """Named dimensions of the most bytes, and all that inputs have."""
        inputs = self.groups.inputs
        return [
            dimension
            for dimension in self._dimensions.dimensions
            if dimension.number < _MOST_NAMED
            or any(v in inputs for v, _ in dimension.arguments)
        ]

    def _free(self, dim: Dim) -> bool:
        """Not scanned by a loop."""
        return dim not in self.graph.scanned

    def _with_twins(self, dim: Dim) -> Iterator[Dim]:
        yield dim
        for one, other in self.folded.twins:
            if dim[0] in (one, other):
                yield (other if dim[0] == one else one), dim[1]

    # By the first dimension that divides

    def _sharded(self, axis: str) -> Iterator[Move]:
        """State, whatever its dimensions' names."""
        groups, types = self.groups, self.graph.program.types
        dims = [
            (v, d)
            for v in groups.allowed
            if v in groups.state
            for d in range(len(types[v].shape))
            if self._free((v, d))
        ]
        large = tuple(d for d in dims if d[0] in groups.large_state)
        yield Move(axis, "large state, first dimension that divides", tiles=large)
        yield Move(axis, "state, first dimension that divides", tiles=tuple(dims))
        rest = tuple(d for d in large if d[0] not in groups.weights)
        whole = tuple(v for v in groups.allowed if v in groups.weights)
        if rest and whole:
            text = "optimizer state, first dimension that divides"
            yield Move(axis, text, tiles=rest, whole=whole)

    # Along two named dimensions at once

    def _sharing(self, axis: str) -> Iterator[Move]:
        """Inputs along one dimension and weights along another, meeting inside."""
        named = [(n, _one_each(self._places(n), last=False)) for n in self._tried]
        inputs, large = self.groups.inputs, self.groups.large_state
        for outer, dims in named:
            given = tuple(d for d in dims if d[0] in inputs)
            for inner, more in named[:_MOST_SHARING] if given else ():
                state = tuple(d for d in more if d[0] in large)
                if inner is not outer and state:
                    yield from self._shared_axis(axis, outer, inner, state, given)

    def _shared_axis(
        self,
        axis: str,
        outer: NamedDim,
        inner: NamedDim,
        state: tuple[Dim, ...],
        inputs: tuple[Dim, ...],
    ) -> Iterator[Move]:
        core, rim = shared_axis_loops(
            self.graph,
            self._dimensions.number_of,
            [v for v, _ in state if v in self.groups.weights],
            inner=inner.number,
            outer=outer.number,
        )
        if core or rim:
            yield Move(
                axis,
                f"inputs, with large state along dimension {inner.number}",
                outer.number,
                state + inputs,
                loops=core + rim,
                first=len(core),
                late=outer.windowed,
            )


def _one_each(dims: list[Dim], last: bool) -> list[Dim]:
    """The first, or the last, of the dimensions that a value has of one name."""
    chosen: dict[int, Dim] = {}
    for dim in dims:
        if last or dim[0] not in chosen:
            chosen[dim[0]] = dim
    return list(chosen.values())
