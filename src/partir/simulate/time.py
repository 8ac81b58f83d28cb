"""Time of each kernel, and of all of them on two streams.

A kernel takes the longer of its arithmetic and its memory traffic, and a little to
start. Collectives run on a stream of their own where the device overlaps them: in
order, each from when its operand is there; what reads its result waits for it.

In a folded program a kernel stands for all its repetitions. They count with it, and so
does what it waits for communication.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from partir.ir.types import TensorType
from partir.simulate.cost import NOTHING, Cost
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.interference import Beside, beside_of, slowed, stored_moves
from partir.simulate.kernels.kernel import Kernel, Kernels, is_barrier
from partir.simulate.network.collectives import Network
from partir.simulate.streams import of_block, of_further_iteration
from partir.simulate.timeline import Event
from partir.spmd.manual_collectives import ManualCollective
from partir.spmd.program import EXCHANGE, Collective, Compute, Control

COMPUTE, COMMUNICATION = "compute", "communication"


@dataclass(frozen=True, slots=True)
class Run:
    """A block on its streams: each kernel's duration and start, and all of it.

    Durations and starts are those of one repetition of a kernel, `seconds` is of all.
    """

    block: Kernels
    durations: Sequence[float]
    starts: Sequence[float]
    seconds: float
    beside: Beside | None = None


class Clock:
    """Times the kernels of one program on one device."""

    def __init__(
        self,
        types: Sequence[TensorType],
        device: DeviceSpec,
        network: Network,
        schedule: Callable[[Kernels], Kernels],
        *,
        multiplicity: Multiplicity | None = None,
        overlap: bool = True,
        trip_count: int = 1,
    ) -> None:
        """`trip_count` is that of loops whose own is not known."""
        self.types, self.device, self.network = types, device, network
        self.schedule, self.multiplicity = schedule, multiplicity
        self.overlap = overlap and device.overlap
        self._costs = bool(self.overlap and device.overlap_cost)
        self._vector_rate = device.vector_rate
        self._memory_rate = device.memory_bytes_per_s * device.memory_efficiency
        self.trip_count = trip_count
        self._runs: dict[int, Run] = {}  # of blocks inside loops

    def run(self, block: Kernels, repeated: bool = False) -> Run:
        """All kernels of a block that is in order; `repeated` if it is a loop's."""
        kernels = block.kernels
        durations = [
            self.compute_seconds(kernel)
            if type(kernel.op) is Compute and not kernel.moves
            else self._seconds(kernel)
            for kernel in kernels
        ]
        in_parts = self.device.products_in_parts
        found = of_block(block, durations, self.overlap, in_parts)
        moves = stored_moves(block, self.types, repeated) if self._costs else set()
        beside = beside_of(block, durations, moves)
        seconds = slowed(found.seconds, beside, self.device)
        return Run(block, durations, found.starts, seconds, beside)

    def cost(self, run: Run) -> Cost:
        """The sum over all kernels of a block, repetitions counted."""
        costs = [self.kernel_cost(kernel) for kernel in run.block.kernels]
        return total(costs, run.block.counts)

    def events(self, run: Run) -> tuple[Event, ...]:
        """What runs when; of repetitions one is shown."""
        kernels = run.block.kernels
        triples = zip(kernels, run.starts, run.durations, strict=True)
        return tuple(
            Event(
                kernel.op,
                COMMUNICATION if kernel.members and self.overlap else COMPUTE,
                start,
                seconds,
                self._inner_events(kernel) if kernel.inner else (),
                kernel,
            )
            for kernel, start, seconds in triples
        )

    def _inner_events(self, kernel: Kernel) -> tuple[Event, ...]:
        """Those of one iteration: a loop's condition, then its body."""
        made, offset = list[Event](), 0.0
        for run in self._inside(kernel)[0]:
            made += [e._replace(start=e.start + offset) for e in self.events(run)]
            offset += run.seconds
        return tuple(made)

    # One kernel

    def kernel_cost(self, kernel: Kernel) -> Cost:
        """Cost of a kernel; a loop's is its body's times its trips."""
        if kernel.members:
            return self._collective(kernel)
        if not kernel.inner:
            if is_barrier(kernel):
                return NOTHING
            cost = self._compute(kernel)
            return cost + self._written(kernel.moves) if kernel.moves else cost
        runs, trips = self._inside(kernel)
        return total([self.cost(run) for run in runs]) * trips

    def _seconds(self, kernel: Kernel) -> float:
        if kernel.members:
            return self._collective_seconds(kernel)
        if kernel.inner:
            runs, trips = self._inside(kernel)
            further = sum(map(self._further, runs)) if trips > 1 else 0.0
            return sum(run.seconds for run in runs) + further * (trips - 1)
        if is_barrier(kernel):
            return 0.0
        return self.kernel_cost(kernel).seconds

    def _further(self, run: Run) -> float:
        """Time of a block again, one iteration after another."""
        if not self.overlap:
            return run.seconds
        in_parts = self.device.products_in_parts
        again = of_further_iteration(run.block, run.durations, self.types, in_parts)
        return min(slowed(again, run.beside, self.device), run.seconds)

    def _inside(self, kernel: Kernel) -> tuple[list[Run], int]:
        """What is inside a loop, and how often; of branches the longest, once."""
        op = kernel.op
        assert isinstance(op, Control)
        runs = []
        for block in kernel.inner:
            known = self._runs.get(id(block))
            if known is None:
                known = self.run(self.schedule(block), repeated=True)
                self._runs[id(block)] = known
            runs.append(known)
        if op.trips == 1:
            return [max(runs, key=lambda run: run.seconds)], 1
        return runs, self.trip_count if op.trips is None else op.trips

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
        memory = kernel.moved_bytes / self._memory_rate
        longer = seconds if seconds > memory else memory
        return longer + device.kernel_seconds if longer else 0.0

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
        share = kernel.by_hand and device.opaque_efficiency
        if device.aligned_bytes and not share and not self._is_aligned(kernel):
            share = device.matrix_efficiency * device.unaligned_rate
        return flops / (rate * (share or device.matrix_efficiency))

    def _is_aligned(self, kernel: Kernel) -> bool:
        """Whether all rows of a product's matrices start where they are read fast."""
        types = [self.types[v] for v in (*kernel.reads[:2], *kernel.writes[:1])]
        rows = [t.shape[-1] * t.bytes // math.prod(t.shape) for t in types if t.bytes]
        return all(row % self.device.aligned_bytes == 0 for row in rows)

    # Communication

    def _collective(self, kernel: Kernel) -> Cost:
        counts = self._member_counts(kernel)
        packed = sum(map(self._packed_bytes, kernel.members))
        calls, size = self._calls(kernel, counts)
        return Cost(
            flops=kernel.flops,
            memory_bytes=2 * packed,
            link_bytes=calls * size,
            communication_seconds=self._collective_seconds(kernel),
            collectives=len(kernel.members) if counts is None else sum(counts),
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

    def _collective_seconds(self, kernel: Kernel) -> float:
        op = kernel.op
        assert isinstance(op, Collective)
        calls, size = self._calls(kernel, self._member_counts(kernel))
        seconds = self._transfer(op, size)
        if op.joint not in (-1, op.result):  # the first of them has started
            seconds = max(0.0, seconds - self.device.collective_seconds)
        packed = sum(map(self._packed_bytes, kernel.members))
        seconds += 2 * packed / self._memory_rate
        return calls * seconds

    def _member_counts(self, kernel: Kernel) -> list[int] | None:
        """Repetitions of combined all-reduces, if they differ: then all are done here.

        Where they don't, the kernel is repeated as a whole.
        """
        if self.multiplicity is None or len(kernel.members) < 2:
            return None
        counts = list(map(self.multiplicity.of, kernel.members))
        return counts if len(set(counts)) > 1 else None

    def _calls(self, kernel: Kernel, counts: list[int] | None) -> tuple[int, float]:
        """How many collectives it takes, and the bytes of each."""
        if counts is None:
            return 1, kernel.moved_bytes
        types = self.types
        whole = sum(
            count * max(types[op.operand].bytes, types[op.result].bytes)
            for op, count in zip(kernel.members, counts, strict=True)
        )
        calls = math.ceil(whole / max(self.device.combine_bytes, 1.0))
        return calls, whole / calls

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
        """Bytes that are copied so that each device's share lies in one piece.

        What is sent with other values is put beside them, and cut out again.
        """
        if op.joint >= 0:
            return float(self.types[op.operand].bytes + self.types[op.result].bytes)
        if not self.device.packs or self.device.export.outer_tiles or op.dim < 1:
            return 0.0  # or there is a kernel for it
        types = self.types[op.operand], self.types[op.result]
        whole = max(types, key=lambda type_: type_.bytes)
        return whole.bytes if math.prod(whole.shape[: op.dim]) > 1 else 0.0


def total(costs: Sequence[Cost], counts: Sequence[int] = ()) -> Cost:
    """The sum, each as often as `counts` says, without an object for each step."""
    if counts:
        costs = [c if n == 1 else c * n for c, n in zip(costs, counts, strict=True)]
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
