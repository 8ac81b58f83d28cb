"""Time and memory of a folded program, for all the repetitions that it stands for.

*Time*: every kernel counts with its repetitions, and so does what it waits for
communication.

*Memory*: what lives from one pass over the repetitions to another (activations for
the backward pass, gradients for the optimizer) is there once per repetition, the rest
once. Within a pass the most is at its first or at its last repetition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from partir.ir.garbage import collection_paused
from partir.simulate.communication import Network
from partir.simulate.devices import DeviceSpec
from partir.simulate.kernels import Fuser, Kernel, Kernels
from partir.simulate.loans import Sizes, size_class
from partir.simulate.memory import Lives, lives_of
from partir.simulate.order import scheduled
from partir.simulate.time import Clock, on_streams
from partir.spmd.program import Collective, Compute, Control, SpmdOp, SpmdProgram


@dataclass(frozen=True)
class Multiplicity:
    """How often each op and each argument of a folded program stands in the whole.

    Ops by number; arguments and results by position. `counted` is, for each op, the
    one of its chain that counts for the others. `carried` is what loops carry, by
    position. `passing` are values that only what is repeated reads, but for the last.
    """

    ops: Sequence[int]
    arguments: Sequence[int]
    results: Sequence[int]
    counted: Sequence[int]
    carried: Mapping[int, Sequence[int]] = field(default_factory=dict)
    passing: frozenset[int] = frozenset()

    def of(self, op: SpmdOp) -> int:
        """Of an op of the lowered program; moves count where they are needed."""
        if isinstance(op, Collective):
            cause = op.cause
            node = cause.producer if cause.consumer is None else cause.consumer
            return 1 if node is None else self.ops[node]
        return self.ops[op.node]


class FoldedEstimate:
    """What the whole program costs on one device, from its folded form."""

    def __init__(
        self,
        program: SpmdProgram,
        times: Multiplicity,
        device: DeviceSpec,
        donated: Sequence[bool],
        network: Network,
    ) -> None:
        """Nothing is computed yet. `network` is the device's with this mesh."""
        self.program, self.times, self.device = program, times, device
        self.donated, self._network = donated, network

    @cached_property
    def collectives(self) -> dict[str, int]:
        """Executed counts on one device."""
        return self.program.count(self.times.of)

    @cached_property
    @collection_paused
    def _kernels(self) -> Kernels:
        return self._scheduled(Fuser(self.program).run())

    def _scheduled(self, block: Kernels) -> Kernels:
        """All-reduces combined; in program order, so that passes stay apart."""
        return scheduled(block, self.device, in_order=True)

    # Time

    @cached_property
    def _weights(self) -> list[int]:
        return [self._weight(kernel) for kernel in self._kernels.kernels]

    def _weight(self, kernel: Kernel) -> int:
        """Repetitions of a kernel; combined all-reduces of several are one."""
        if not kernel.members:
            return self.times.of(kernel.op)
        weights = {self.times.of(op) for op in kernel.members}
        return weights.pop() if len(weights) == 1 else 1

    @cached_property
    @collection_paused
    def seconds(self) -> float:
        """Time of the whole step."""
        clock = Clock(
            self.program.types,
            self.device,
            self._network,
            self._scheduled,
        )
        kernels = self._kernels.kernels
        seconds, end, self._durations = self._block(clock, kernels, self._weights)
        if clock.overlap and self._both[1] > _MUCH * self._both[0]:
            seconds = max(seconds, self._piling_up(end))
        return seconds + self.device.step_seconds

    def _block(
        self, clock: Clock, kernels: Sequence[Kernel], weights: Sequence[int]
    ) -> tuple[float, float, list[float]]:
        """Time with all repetitions, without them, and of each kernel."""
        durations = [
            clock.compute_seconds(kernel)
            if type(kernel.op) is Compute and not kernel.moves
            else self._duration(clock, kernel)
            for kernel in kernels
        ]
        starts, end = on_streams(kernels, durations, clock.overlap)
        seconds = computed = 0.0
        moved: dict[int, int] = {}  # weights of what communication made
        for kernel, weight, start, duration in zip(
            kernels, weights, starts, durations, strict=True
        ):
            if clock.overlap and kernel.members:
                moved.update(dict.fromkeys(kernel.writes, weight))
                continue
            waited = start - computed
            if waited > 0:  # not more often than there is something to wait for
                often = max([moved.get(v, 1) for v in kernel.reads], default=1)
                waited *= min(weight, often)
            seconds += waited + weight * duration
            computed = start + duration
        return seconds + end - computed, end, durations

    def _loop(self, clock: Clock, kernel: Kernel) -> float:
        """Time of a loop, or of the longest branch."""
        op = kernel.op
        assert isinstance(op, Control)
        inside = [self._scheduled(inner).kernels for inner in kernel.inner]
        found = [
            self._block(clock, block, list(map(self._weight, block)))[0]
            for block in inside
        ]
        if op.trips == 1:
            return max(found)
        return sum(found) * (clock.trip_count if op.trips is None else op.trips)

    def _piling_up(self, end: float) -> float:
        """Time if every repetition adds what it takes longer with it than without it.

        Where there is more communication than computation can hide, it piles up.
        """
        kernels, weights, total = self._kernels.kernels, self._weights, end
        for weight in sorted(set(weights) - {1}):
            without = [
                -1.0 if w == weight else d
                for d, w in zip(self._durations, weights, strict=True)
            ]
            _, rest = on_streams(kernels, without, overlap=True)
            total += (weight - 1) * (end - rest)
        return total

    def _duration(self, clock: Clock, kernel: Kernel) -> float:
        if kernel.inner:
            return self._loop(clock, kernel)
        weights = [self.times.of(op) for op in kernel.members]
        if len(set(weights)) < 2:
            return clock.kernel(kernel)[1]
        types = self.program.types
        total = sum(
            w * max(types[op.operand].bytes, types[op.result].bytes)
            for op, w in zip(kernel.members, weights, strict=True)
        )
        calls = math.ceil(total / max(self.device.combine_bytes, 1.0))
        one = kernel._replace(moved_bytes=total / calls)
        return calls * clock.kernel(one)[1]

    @property
    def compute_seconds(self) -> float:
        """Time of all kernels."""
        assert self.seconds >= 0
        return self._both[0]

    @property
    def communication_seconds(self) -> float:
        """Time of all collectives, hidden or not."""
        assert self.seconds >= 0
        return self._both[1]

    @cached_property
    def _both(self) -> tuple[float, float]:
        return _sums(self._kernels.kernels, self._durations, self._weights)

    # Memory

    @cached_property
    @collection_paused
    def peak_bytes(self) -> int:
        """Most memory that one device needs at a time."""
        program, block, times = self.program, self._kernels, self.times
        types, body = program.types, program.body
        lives, own, _ = lives_of(
            program,
            block,
            self.donated,
            self._scheduled,
            (times.arguments, times.results),
        )
        arguments = sum(
            types[v].bytes * w
            for v, w in zip(body.arguments, times.arguments, strict=True)
        )
        results = sum(types[body.results[n]].bytes * times.results[n] for n in own)
        return int(arguments + results + self._temporary(lives))

    def _temporary(self, lives: Lives) -> float:
        if not lives.kernels:
            return 0.0
        return float(max(lives.curve(extra).max() for extra in self._others(lives)))

    def _others(self, lives: Lives) -> tuple[Sizes, Sizes]:
        """Bytes of the other repetitions, at the first and at the last of a pass."""
        kernels, weights = self._kernels.kernels, self._weights
        loops = [bool(kernel.inner) for kernel in kernels]
        passes, types = _Passes.of(weights, loops), self.program.types
        place_of = {
            kernel.op.node: place
            for place, kernel in enumerate(kernels)
            if not isinstance(kernel.op, Collective)
        }
        early_by, late_by = _Changes(len(kernels)), _Changes(len(kernels))
        for value, end in lives.end.items():
            place = lives.born[value]
            weight = weights[place]
            if loops[place]:
                weight = self._carried_weight(kernels[place], value)
            if weight == 1:
                continue
            last = self._counted(kernels[end], end, place_of)
            made = passes.number[place]
            if made != passes.number[last] and self._passes_on(kernels[place], value):
                end = self._last_repeated.get(value, place)
                last = self._counted(kernels[end], end, place_of)
            read = passes.number[last]
            if made == read:
                continue
            extra = (weight - 1) * types[value].bytes
            size = size_class(types[value].bytes)
            early, late = early_by[size], late_by[size]
            early[passes.last[made]] += extra
            late[passes.first[made]] += extra
            if weights[last] > 1:  # given back one by one as they are read
                early[passes.last[read]] -= extra
                late[passes.first[read]] -= extra
            else:
                early[last + 1] -= extra
                late[last + 1] -= extra
        return early_by.sums(), late_by.sums()

    def _repeats(self, kernel: Kernel) -> bool:
        """Whether it stands for others, or one that does stands for it."""
        op, times = kernel.op, self.times
        if isinstance(op, Collective):
            node = op.cause.producer if op.cause.consumer is None else op.cause.consumer
        else:
            node = op.node
        return node is not None and (times.ops[node] > 1 or times.counted[node] != node)

    @cached_property
    def _last_repeated(self) -> dict[int, int]:
        """Where something that repeats last reads each value."""
        return {
            value: place
            for place, kernel in enumerate(self._kernels.kernels)
            if self._repeats(kernel)
            for value in kernel.reads
        }

    def _passes_on(self, kernel: Kernel, value: int) -> bool:
        """Whether others of its kind are read by nothing that is there once."""
        op = kernel.op
        if isinstance(op, Collective):
            sources = [m.cause.value for m in kernel.members if m.result == value]
        else:
            made = self.program.program.ops[op.node].results
            sources = [made[op.results.index(value)]]
        return not self.times.passing.isdisjoint(sources)

    def _carried_weight(self, kernel: Kernel, value: int) -> int:
        """How many values one that a loop carries stands for."""
        assert isinstance(kernel.op, Control)
        carried = self.times.carried.get(kernel.op.node)
        return carried[kernel.writes.index(value)] if carried else self._weight(kernel)

    def _counted(self, kernel: Kernel, place: int, place_of: dict[int, int]) -> int:
        """Place of the kernel that counts for the repetitions of this one."""
        if isinstance(kernel.op, Collective):
            return place
        return place_of.get(self.times.counted[kernel.op.node], place)


class _Changes(dict[int, np.ndarray]):
    """Changes at each place, by size class."""

    def __init__(self, places: int) -> None:
        super().__init__()
        self.places = places

    def __missing__(self, size: int) -> np.ndarray:
        found = self[size] = np.zeros(self.places + 1)
        return found

    def sums(self) -> Sizes:
        """What they come to at each place."""
        return {size: np.cumsum(change)[:-1] for size, change in self.items()}


@dataclass(frozen=True, slots=True)
class _Passes:
    """Stretches of kernels that are repeated alike: number of each, its first, last."""

    number: list[int]
    first: list[int]
    last: list[int]

    @classmethod
    def of(cls, weights: Sequence[int], loops: Sequence[bool]) -> _Passes:
        """Stretches of what is repeated; a few kernels that aren't don't end one.

        A loop does: all that it carries is there at once.
        """
        repeated = np.array(weights) > 1
        edges = np.flatnonzero(np.diff(repeated)) + 1
        starts = [0, *edges.tolist(), len(weights)]
        runs = [(bool(repeated[a]), a, b) for a, b in pairwise(starts) if a < b]
        joined: list[tuple[bool, int, int]] = []
        for number, (again, start, stop) in enumerate(runs):
            inside = 0 < number < len(runs) - 1
            short = inside and stop - start <= _GAP and not any(loops[start:stop])
            again = again or short
            if joined and joined[-1][0] == again:
                start = joined.pop()[1]
            joined.append((again, start, stop))
        numbers = [n for n, (_, a, b) in enumerate(joined) for _ in range(a, b)]
        return cls(numbers, [a for _, a, _ in joined], [b - 1 for *_, b in joined])


_GAP = 16  # kernels
_MUCH = 0.25  # communication, as a share of computation


def _sums(
    kernels: Sequence[Kernel], durations: Sequence[float], weights: Sequence[int]
) -> tuple[float, float]:
    moved = [bool(kernel.members) for kernel in kernels]
    times = np.array(durations) * np.array(weights)
    moving = np.array(moved, bool)
    return float(times[~moving].sum()), float(times[moving].sum())
