"""Kernels on two streams: when each starts, and what their repetitions take.

Collectives have a stream of their own if they overlap with computation.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.simulate.kernels.kernel import Kernel

_MUCH = 0.25  # communication, as a share of computation


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


class Repeated:
    """What kernels take with all their repetitions, from what they take once."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        counts: Sequence[int],
        durations: Sequence[float],
        overlap: bool,
    ) -> None:
        """`counts` are the repetitions of each kernel."""
        self.kernels, self.counts, self.durations = kernels, counts, durations
        self.overlap = overlap

    def seconds(self, starts: Sequence[float], end: float) -> float:
        """Time of all, given when each starts and the last ends without repetitions."""
        seconds = self._waiting(starts, end)
        if self.overlap and self._much_is_moved():
            return max(seconds, self._piling_up(end))
        return seconds

    def _waiting(self, starts: Sequence[float], end: float) -> float:
        """Every kernel as often as it is repeated, and as often what it waits for."""
        seconds = computed = 0.0
        moved: dict[int, int] = {}  # repetitions of what communication made
        for kernel, count, start, duration in zip(
            self.kernels, self.counts, starts, self.durations, strict=True
        ):
            if self.overlap and kernel.members:
                moved.update(dict.fromkeys(kernel.writes, count))
                continue
            waited = start - computed
            if waited > 0:  # not more often than there is something to wait for
                often = max([moved.get(v, 1) for v in kernel.reads], default=1)
                waited *= min(count, often)
            seconds += waited + count * duration
            computed = start + duration
        return seconds + end - computed

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
            _, rest = on_streams(kernels, without, overlap=True)
            total += (some - 1) * (end - rest)
        return total
