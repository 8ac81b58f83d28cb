"""`Move`: one step of a search, over one axis and in every repetition at once."""

from __future__ import annotations

from dataclasses import dataclass

from partir.partition.propagate import propagate
from partir.partition.state import Origin, State
from partir.rules.factor import Factor
from partir.rules.nest import UNDECIDED
from partir.search.space.dimensions import Dim

Loops = tuple[tuple[int, Factor], ...]
"""Nodes of the graph, each with the factor that it is to loop over."""


def is_open(state: State, value: int, axis: str) -> bool:
    """Whether a value may be gathered over an axis, and nothing is said of that."""
    tiled = any(axis in axes for axes in state.tilings[value])
    return tiled and (axis, value) not in state.gathers


@dataclass(frozen=True, slots=True)
class Move:
    """Values to leave whole, dimensions to tile, or loops to choose, over one axis.

    `subject` says of what in words, `dimension` is the number of the named dimension if
    the move is about one, `rank` the place among choices for single stuck ops. Of the
    loops, the `first` few go before the others. What is gathered of `kept` values is
    kept. A `late` move is tried when others have been.
    """

    axis: str
    subject: str
    dimension: int | None = None
    tiles: tuple[Dim, ...] = ()
    whole: tuple[int, ...] = ()
    loops: Loops = ()
    first: int = 0
    rank: int = 0
    kept: tuple[int, ...] = ()
    late: bool = False

    @property
    def key(self) -> tuple[str, str, int | None, int]:
        """What it is, whatever the state: for statistics."""
        return self.axis, self.subject, self.dimension, self.rank

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
        return self._keep(state) or changed

    def _keep(self, state: State) -> bool:
        """Say of what is gathered that it is kept, where nothing is said yet."""
        open_ = [v for v in self.kept if is_open(state, v, self.axis)]
        for value in open_:
            state.say_gathered(value, self.axis, "keep")
        return bool(open_)

    def fitting(self, state: State, node: int, factor: Factor) -> int | None:
        """Number of the loop's factor if the op can have it on this axis."""
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
