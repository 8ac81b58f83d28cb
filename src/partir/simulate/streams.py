"""Kernels on two streams: when each starts, and what their repetitions take.

Collectives have a stream of their own if they overlap with computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from partir.ir.types import TensorType
from partir.simulate.kernels.kernel import Kernel, Kernels, is_barrier

_MUCH = 0.25  # communication, as a share of computation


class Streams(NamedTuple):
    """When each kernel starts and ends, and when the last does."""

    starts: list[float]
    ends: list[float]
    seconds: float


def of_block(
    block: Kernels, durations: Sequence[float], overlap: bool, in_parts: bool
) -> Streams:
    """Kernels once each; `seconds` are of all their repetitions."""
    once = on_streams(block.kernels, durations, overlap, in_parts)
    if not block.counts:
        return once
    repeated = Repeated(block, durations, overlap, in_parts)
    return once._replace(seconds=repeated.seconds(once))


def on_streams(
    kernels: Sequence[Kernel],
    durations: Sequence[float],
    overlap: bool,
    in_parts: bool = False,
) -> Streams:
    """When each kernel starts and ends.

    A negative duration is a kernel left out. With `in_parts`, products go on beside
    what gathers their operands or scatters their results, part by part.
    """
    ready: dict[int, float] = {}
    begun: dict[int, float] = {}  # when parts are there, if there are parts
    computed = communicated = 0.0
    starts, ends = [], []
    for kernel, seconds in zip(kernels, durations, strict=True):
        if seconds < 0:
            starts.append(computed)
            ends.append(computed)
            continue
        moves = overlap and bool(kernel.members)
        parts = in_parts and overlap and _goes_by_parts(kernel)
        start = communicated if moves else computed
        end = 0.0
        for value in kernel.reads:
            if value not in ready:
                continue
            first = begun.get(value) if parts else None
            start = max(start, ready[value] if first is None else first)
            end = max(end, ready[value])
        if kernel.inner:  # a loop has both streams for itself
            start = max(start, computed, communicated)
        starts.append(start)
        end = max(end, start + seconds)
        ends.append(end)
        if moves or kernel.inner:
            communicated = end
        if not moves:
            computed = end
        for value in kernel.writes:
            ready[value] = end
            if parts:
                begun[value] = start
    return Streams(starts, ends, max(computed, communicated))


def _goes_by_parts(kernel: Kernel) -> bool:
    """Whether its parts are worth something to a product, or of a product to it."""
    if not kernel.members:
        return kernel.matmul is not None
    return all(op.kind in ("all_gather", "reduce_scatter") for op in kernel.members)


def of_further_iteration(
    body: Kernels,
    durations: Sequence[float],
    types: Sequence[TensorType],
    in_parts: bool = False,
) -> float:
    """What an iteration takes that others go before and behind.

    What it gathers of values that don't change in the loop is moved during the one
    before it; what it sends to where only sums and stacks are kept, during the next.
    There must be time for both.
    """
    kernels = body.kernels
    hidden = _ahead(body, types) | moved_for_nobody(body)
    waited_for = [
        0.0 if number in hidden else duration
        for number, duration in enumerate(durations)
    ]
    counts = body.counts or [1] * len(kernels)
    moved = sum(
        duration * count
        for kernel, duration, count in zip(kernels, durations, counts, strict=True)
        if kernel.members
    )
    return max(of_block(body, waited_for, True, in_parts).seconds, moved)


def _ahead(body: Kernels, types: Sequence[TensorType]) -> set[int]:
    """Collectives of what no iteration makes; numbers that count don't matter."""
    changing = {value for value in body.arguments if types[value].shape}
    found = set()
    for number, kernel in enumerate(body.kernels):
        if is_barrier(kernel):
            pairs = zip(kernel.op.operands, kernel.op.results, strict=True)
            changing.update(made for value, made in pairs if value in changing)
        elif not changing.isdisjoint(kernel.reads):
            changing.update(kernel.writes)
        elif kernel.members:
            found.add(number)
    return found


def moved_for_nobody(body: Kernels) -> set[int]:
    """Collectives of which no product is made, in this iteration or the next."""
    needed: set[int] = set()
    for _ in range(2):  # what the next one needs, this one must have made
        kept = [made for value, made in body.carried if value in needed]
        needed.update(made for made in kept if made is not None)
        for kernel in reversed(body.kernels):
            if kernel.matmul or kernel.inner or not needed.isdisjoint(kernel.writes):
                needed.update(kernel.reads)
    return {
        number
        for number, kernel in enumerate(body.kernels)
        if kernel.members and needed.isdisjoint(kernel.writes)
    }


class Repeated:
    """What kernels take with all their repetitions, from what they take once."""

    def __init__(
        self, block: Kernels, durations: Sequence[float], overlap: bool, in_parts: bool
    ) -> None:
        """`durations` are those of one repetition of each kernel."""
        self.kernels, self.counts = block.kernels, block.counts
        self.durations, self.overlap, self.in_parts = durations, overlap, in_parts

    def seconds(self, once: Streams) -> float:
        """Time of all, given when each starts and ends without repetitions."""
        seconds = self._waiting(once)
        if self.overlap and self._much_is_moved():
            return max(seconds, self._piling_up(once.seconds))
        return seconds

    def _waiting(self, once: Streams) -> float:
        """Every kernel as often as it is repeated, and as often what it waits for."""
        seconds = computed = 0.0
        moved: dict[int, int] = {}  # repetitions of what communication made
        for kernel, count, end, duration in zip(
            self.kernels,
            self.counts,
            once.ends,
            self.durations,
            strict=True,
        ):
            if self.overlap and kernel.members:
                moved.update(dict.fromkeys(kernel.writes, count))
                continue
            waited = end - computed - duration
            if waited > 0:  # not more often than there is something to wait for
                often = max([moved.get(v, 1) for v in kernel.reads], default=1)
                waited *= min(count, often)
            seconds += waited + count * duration
            computed = end
        return seconds + once.seconds - computed

    def _much_is_moved(self) -> bool:
        computing = moving = 0.0
        for kernel, count, duration in zip(
            self.kernels, self.counts, self.durations, strict=True
        ):
            if kernel.members:
                moving += duration * count
            else:
                computing += duration * count
        return moving > _MUCH * computing

    def _piling_up(self, end: float) -> float:
        """Time if every repetition adds what it takes longer with it than without it.

        Where there is more communication than computation can hide, it piles up.
        """
        kernels, counts, total = self.kernels, self.counts, end
        for some in sorted(set(counts) - {1}):
            without = [
                -1.0 if count == some else duration
                for duration, count in zip(self.durations, counts, strict=True)
            ]
            rest = on_streams(kernels, without, True, self.in_parts).seconds
            total += (some - 1) * (end - rest)
        return total
