"""Time of each kernel, and of all of them on two streams.

A kernel takes the longer of its arithmetic and its memory traffic, and a little to
start. Collectives run on a stream of their own where the device overlaps them: in
order, each from when its operand is there; what reads its result waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from partir.ir.types import TensorType
from partir.simulate.cost import NOTHING, Cost
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.simulate.network.collectives import Network
from partir.simulate.timeline import Event
from partir.spmd.manual_collectives import ManualCollective
from partir.spmd.program import EXCHANGE, Collective, Control

COMPUTE, COMMUNICATION = "compute", "communication"


@dataclass(frozen=True, slots=True)
class Run:
    """A block's cost, how long it takes, and its events."""

    cost: Cost
    seconds: float
    events: tuple[Event, ...]


class Clock:
    """Times the kernels of one program on one device."""

    def __init__(
        self,
        types: Sequence[TensorType],
        device: DeviceSpec,
        network: Network,
        schedule: Callable[[Kernels], Kernels],
        *,
        overlap: bool = True,
        trip_count: int = 1,
    ) -> None:
        """`trip_count` is that of loops whose own is not known."""
        self.types, self.device, self.network = types, device, network
        self.schedule = schedule
        self.overlap = overlap and device.overlap
        self._vector_rate = device.vector_rate
        self.trip_count = trip_count

    def run(self, block: Kernels) -> Run:
        """All kernels of a block that is in order."""
        found = [self.kernel(kernel) for kernel in block.kernels]
        durations = [seconds for _, seconds, _ in found]
        starts, end = on_streams(block.kernels, durations, self.overlap)
        events = [
            Event(
                kernel.op,
                COMMUNICATION if kernel.members and self.overlap else COMPUTE,
                start,
                seconds,
                inner,
            )
            for kernel, start, (_, seconds, inner) in zip(
                block.kernels, starts, found, strict=True
            )
        ]
        return Run(total([cost for cost, *_ in found]), end, tuple(events))

    def kernel(self, kernel: Kernel) -> tuple[Cost, float, tuple[Event, ...]]:
        """Cost and time of a kernel; a loop's are its body's times its trips."""
        if kernel.members:
            cost = self._collective(kernel)
            return cost, cost.communication_seconds, ()
        if not kernel.inner:
            if isinstance(kernel.op, Control):
                return NOTHING, 0.0, ()
            cost = self._compute(kernel)
            if kernel.moves:
                cost += self._written(kernel.moves)
            return cost, cost.seconds, ()
        return self._control(kernel)

    def _control(self, kernel: Kernel) -> tuple[Cost, float, tuple[Event, ...]]:
        op = kernel.op
        assert isinstance(op, Control)
        runs = [self.run(self.schedule(inner)) for inner in kernel.inner]
        if op.trips != 1:  # a loop; of branches the longest counts
            trips = self.trip_count if op.trips is None else op.trips
            cost = total([run.cost for run in runs]) * trips
            seconds = sum(run.seconds for run in runs) * trips
            return cost, seconds, runs[-1].events
        worst = max(runs, key=lambda run: run.seconds)
        return worst.cost, worst.seconds, worst.events

    def _compute(self, kernel: Kernel) -> Cost:
        return Cost(
            flops=kernel.flops,
            transcendentals=kernel.transcendentals,
            memory_bytes=kernel.moved_bytes,
            compute_seconds=self.compute_seconds(kernel),
            kernels=1,
        )

    def compute_seconds(self, kernel: Kernel) -> float:
        """Time of a kernel that computes."""
        device = self.device
        if kernel.matmul is not None:
            seconds = self._matmul(kernel)
        else:
            work = kernel.flops + kernel.transcendentals * device.transcendental_flops
            seconds = work / self._vector_rate
        memory = kernel.moved_bytes / device.memory_bytes_per_s
        return (seconds if seconds > memory else memory) + device.kernel_seconds

    def _matmul(self, kernel: Kernel) -> float:
        """Products of padded matrices at the rate of their element type."""
        device = self.device
        assert kernel.matmul is not None
        batch, *sizes = kernel.matmul
        padded = [
            math.ceil(size / tile) * tile
            for size, tile in zip(sizes, device.matrix_tile, strict=True)
        ]
        wide = any(self.types[v].dtype in ("f32", "f64") for v in kernel.reads[:2])
        rate = device.flops_per_s * (device.float32_rate if wide else 1.0)
        flops = 2.0 * batch * math.prod(padded)
        return flops / (rate * device.matrix_efficiency)

    def _collective(self, kernel: Kernel) -> Cost:
        op = kernel.op
        assert isinstance(op, Collective)
        seconds = self._transfer(op, kernel.moved_bytes)
        packed = sum(map(self._packed_bytes, kernel.members))
        seconds += 2 * packed / self.device.memory_bytes_per_s
        return Cost(
            flops=kernel.flops,
            memory_bytes=2 * packed,
            link_bytes=kernel.moved_bytes,
            communication_seconds=seconds,
            collectives=len(kernel.members),
        )

    def _transfer(self, op: Collective, moved: float) -> float:
        """Time on the wire; an exchange is as many permutes as it has rounds."""
        if op.kind != EXCHANGE:
            return self.network.seconds(op.kind, op.axes, moved)
        assert op.window is not None
        rounds = len(op.window.plan[1])
        if not rounds:
            return 0.0
        kind = "collective_permute"
        return rounds * self.network.seconds(kind, op.axes, moved / rounds)

    def _written(self, moves: Sequence[ManualCollective]) -> Cost:
        """Collectives within an op, one after another as they were written."""
        seconds = total = 0.0
        for move in moves:
            axes = self.network.axes_of(move.devices)
            each = self.network.seconds(move.kind, axes, move.bytes)
            seconds += each * move.times
            total += move.bytes * move.times
        times = sum(move.times for move in moves)
        return Cost(link_bytes=total, communication_seconds=seconds, collectives=times)

    def _packed_bytes(self, op: Collective) -> float:
        """Bytes that are copied so that each device's share lies in one piece."""
        if not self.device.packs or op.dim < 1:
            return 0.0
        types = self.types[op.operand], self.types[op.result]
        whole = max(types, key=lambda type_: type_.bytes)
        return whole.bytes if math.prod(whole.shape[: op.dim]) > 1 else 0.0


def on_streams(
    kernels: Sequence[Kernel], durations: Sequence[float], overlap: bool
) -> tuple[list[float], float]:
    """When each kernel starts, and when the last ends.

    A negative duration is a kernel left out.
    """
    ready: dict[int, float] = {}
    computed = communicated = 0.0
    starts = []
    for kernel, seconds in zip(kernels, durations, strict=True):
        if seconds < 0:
            starts.append(computed)
            continue
        moves = overlap and bool(kernel.members)
        start = communicated if moves else computed
        for value in kernel.reads:
            if value in ready and ready[value] > start:
                start = ready[value]
        if kernel.inner:  # a loop has both streams for itself
            start = max(start, computed, communicated)
        starts.append(start)
        end = start + seconds
        if moves or kernel.inner:
            communicated = end
        if not moves:
            computed = end
        for value in kernel.writes:
            ready[value] = end
    return starts, max(computed, communicated)


def total(costs: Sequence[Cost]) -> Cost:
    """The sum, without an object for each step."""
    return Cost(
        flops=math.fsum([c.flops for c in costs]),
        transcendentals=math.fsum([c.transcendentals for c in costs]),
        memory_bytes=math.fsum([c.memory_bytes for c in costs]),
        link_bytes=math.fsum([c.link_bytes for c in costs]),
        compute_seconds=math.fsum([c.compute_seconds for c in costs]),
        communication_seconds=math.fsum([c.communication_seconds for c in costs]),
        kernels=math.fsum([c.kernels for c in costs]),
        collectives=math.fsum([c.collectives for c in costs]),
    )
