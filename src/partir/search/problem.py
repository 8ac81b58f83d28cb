"""What the search asks: the cost of a sequence of moves, on the folded program."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from partir.ir.garbage import collection_paused
from partir.partition.state import State
from partir.search.fold.build import fold
from partir.search.fold.folded import Folded
from partir.search.fold.state import folded_state
from partir.search.goal import Goal, Outcome
from partir.search.space.dimensions import NamedDim, named_dimensions
from partir.search.space.kept import kept_moves
from partir.search.space.move import Move
from partir.search.space.moves import Moves
from partir.search.space.stuck_ops import stuck_moves
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.estimate import Estimate
from partir.simulate.kernels.program_flops import program_flops
from partir.simulate.network.collectives import Network
from partir.spmd.program import FoldedRepeats
from partir.spmd.stages import lower_state

Path = tuple[Move, ...]
_STATES = 512  # partitions remembered to go on from


class Problem:
    """The folded partition as it was before the search, and what may be decided."""

    def __init__(
        self,
        state: State,
        axes: Sequence[str],
        device: DeviceSpec,
        donated: Sequence[bool],
        *,
        memory_limit: float | None = None,
        goal: str | Callable[[Any], float] = "time",
        allowed: set[int] | None = None,
    ) -> None:
        """`allowed` are the arguments (values of the program) that may be tiled."""
        program = state.graph.program
        self.folded: Folded = fold(program, state)
        self.start: State = folded_state(self.folded, state)
        self.device, self.axes = device, tuple(axes)
        self.donated = [donated[n] for n in self.folded.argument_positions]
        peak = device.flops_per_s * state.mesh.size
        limit = device.memory_bytes if memory_limit is None else memory_limit
        self.goal = Goal(limit, goal, program_flops(program) / peak)
        graph = self.start.graph
        self._named = named_dimensions(self.folded, graph)
        self._allowed = self._folded_values(allowed)
        self._begin()

    def _begin(self) -> None:
        """What follows from the rest, and what is remembered."""
        self.network = Network(self.start.mesh, self.device)
        self.moves = Moves(
            self.folded, self.start.graph, self._named, self.axes, self._allowed
        )
        self.evaluations = 0
        self._known: dict[object, Outcome] = {}
        self._states: OrderedDict[Path, State] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        """For another process: nothing remembered, and only the folded program."""
        folded = replace(self.folded, source=self.folded.program)
        sent = "start device axes donated goal _named _allowed".split()
        return {"folded": folded} | {name: self.__dict__[name] for name in sent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def _folded_values(self, allowed: set[int] | None) -> set[int] | None:
        if allowed is None:
            return None
        members = self.folded.members
        return {n for n, those in enumerate(members) if those[0] in allowed}

    @property
    def dimensions(self) -> tuple[NamedDim, ...]:
        """Named dimensions, those of the largest arguments first."""
        return self._named.dimensions

    # Partitions

    def state(self, path: Path) -> State:
        """The partition after these moves; not to be changed."""
        if not path:
            return self.start
        state = self._states.get(path)
        if state is None:
            state = self.state(path[:-1]).copy()
            path[-1].apply(state)
            self._remember(path, state)
        else:
            self._states.move_to_end(path)
        return state

    def follow(self, path: Path, move: Move) -> State | None:
        """The partition after one more move; None if that changes nothing."""
        longer = (*path, move)
        if longer in self._states:
            return self._states[longer]
        state = self.state(path).copy()
        if not move.apply(state):
            return None
        self._remember(longer, state)
        return state

    def _remember(self, path: Path, state: State) -> None:
        self._states[path] = state
        if len(self._states) > _STATES:
            self._states.popitem(last=False)

    @cached_property
    def fixed(self) -> tuple[Move, ...]:
        """Moves that change something, those that say the same once, late ones last.

        Moves that lead to one partition from the start may differ after another.
        """
        different: dict[object, Move] = {}
        for move in self.moves.fixed:
            if self.follow((), move) is not None:
                fitting = tuple(
                    (v, d) for v, d in move.tiles if self.start.divides(v, d, move.axis)
                )
                said = (move.axis, frozenset(fitting), frozenset(move.whole))
                different.setdefault((*said, move.loops), move)
        return tuple(sorted(different.values(), key=lambda move: move.late))

    def candidates(self, path: Path) -> list[Move]:
        """Moves that may be tried here."""
        return [*self.fixed, *stuck_moves(self.state(path), self.axes)]

    def kept_moves(self, path: Path) -> Iterator[Move]:
        """Moves that keep what is gathered, axis by axis; they bind no other."""
        state = self.state(path)
        for axis in self.axes:
            yield from kept_moves(state, self.moves.groups.weights, axis)

    # Costs

    def fingerprint(self, state: State) -> object:
        """Equal for equal partitions, however they were reached."""
        return (
            tuple(map(id, state.nests)),
            tuple(state.tilings),
            *(tuple(state.seen[axis]) for axis in self.axes),
            frozenset(state.gathers.items()),
        )

    def outcome(self, state: State) -> Outcome:
        """What a partition costs; each different one is computed once."""
        key = hash(self.fingerprint(state))
        outcome = self._known.get(key)
        if outcome is None:
            outcome = self._known[key] = self.evaluate(state)
            self.evaluations += 1
        return outcome

    @collection_paused
    def evaluate(self, state: State) -> Outcome:
        """Lower, rewrite and estimate."""
        return self.goal.outcome(self.estimate(state))

    def estimate(self, state: State) -> Estimate:
        """Time and memory of the whole program in this partition."""
        times = self.folded.times
        return Estimate(
            lower_state(state, FoldedRepeats(times.ops, times.handed)),
            self.device,
            self.donated,
            multiplicity=times,
            network=self.network,
        )
