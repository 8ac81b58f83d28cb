"""Time and memory of a folded program, for all the repetitions that it stands for.

*Time*: every kernel counts with its repetitions, and so does what it waits for
communication.

*Memory*: what other repetitions keep (`memory/folded.py`) comes to what is there.
Within a pass over them the most is at the first or at the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from partir.ir.garbage import collection_paused
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.fusion import Fuser
from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.simulate.kernels.schedule import scheduled
from partir.simulate.memory.folded import Repetitions
from partir.simulate.memory.live_ranges import Lives
from partir.simulate.memory.peak import lives_of
from partir.simulate.network.collectives import Network
from partir.simulate.time import Clock, on_streams
from partir.spmd.program import Compute, Control, SpmdProgram


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
        return self._scheduled(Fuser(self.program, self.device.fusion).run())

    def _scheduled(self, block: Kernels) -> Kernels:
        """All-reduces combined; in program order, so that passes stay apart."""
        return scheduled(block, self.device, in_order=True)

    # Time

    @cached_property
    def _weights(self) -> list[int]:
        ops = self.times.ops
        return [
            ops[kernel.op.node] if type(kernel.op) is Compute else self._weight(kernel)
            for kernel in self._kernels.kernels
        ]

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
        times, count = self.times, len(self.times.results)
        body = self.program.body
        body = replace(body, results=body.results[:count])
        program = replace(
            self.program, body=body, out_tilings=self.program.out_tilings[:count]
        )
        block = replace(self._kernels, results=self._kernels.results[:count])
        types = program.types
        lives, own, _ = lives_of(program, block, self.donated, self._scheduled, times)
        arguments = sum(
            types[v].bytes * w
            for v, w in zip(body.arguments, times.arguments, strict=True)
        )
        results = sum(types[body.results[n]].bytes * times.results[n] for n in own)
        return int(arguments + results + self._temporary(lives))

    def _temporary(self, lives: Lives) -> float:
        if not lives.kernels:
            return 0.0
        kernels, weights = self._kernels.kernels, self._weights
        more = Repetitions(self.program, self.times, kernels, weights).others(lives)
        return float(max(lives.curve(extra).max() for extra in more))


_MUCH = 0.25  # communication, as a share of computation


def _sums(
    kernels: Sequence[Kernel], durations: Sequence[float], weights: Sequence[int]
) -> tuple[float, float]:
    computing = moving = 0.0
    for kernel, duration, weight in zip(kernels, durations, weights, strict=True):
        if kernel.members:
            moving += duration * weight
        else:
            computing += duration * weight
    return computing, moving
