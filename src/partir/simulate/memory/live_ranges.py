"""Live ranges: where in the schedule each value is in memory.

A value lives from the kernel that writes it to the last that reads it. A kernel writes
in place where it is elementwise and what it reads is needed no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from partir.ir.types import TensorType
from partir.rules.traits import Role
from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.simulate.memory.buffer_reuse import Buffer, Sizes, by_size, not_hosted
from partir.simulate.memory.near_memory import NO_NEAR_MEMORY, NearMemory
from partir.simulate.memory.other_repetitions import OtherRepetitions
from partir.spmd.program import Control

_IN_PLACE = frozenset((Role.CHEAP, Role.COSTLY, Role.UPDATE))


class LiveRanges:
    """Live ranges of a block's values in memory, by position in the schedule."""

    def __init__(
        self,
        block: Kernels,
        types: Sequence[TensorType],
        schedule: Callable[[Kernels], Kernels],
        is_body: bool,
        others: OtherRepetitions | None = None,
        near: NearMemory = NO_NEAR_MEMORY,
    ) -> None:
        self.near = near
        self.block, self.types, self.schedule = block, types, schedule
        self.is_body, self.others = is_body, others
        self.kernels = block.kernels
        self.born: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.end: dict[int, int] = {}  # of values that have bytes of their own
        count = len(self.kernels)
        self.change = np.zeros(count + 2)
        self.inner = np.zeros(count + 1)
        self.added: list[Buffer] = []
        self.loans: list[Buffer] = []
        self.shares: set[int] = set()  # values that begin in another's memory
        self.apart = {v for k in self.kernels if k.apart for v in k.writes}
        self._ranges()
        self._values()

    def _ranges(self) -> None:
        last, born = self.last, self.born
        for place, kernel in enumerate(self.kernels):
            for value in kernel.reads:
                last[value] = place
            for value in kernel.writes:
                born[value] = last[value] = place

    def _values(self) -> None:
        types, end = self.types, self.end
        change = [0.0] * len(self.change)
        outs = {value for value in self.block.results if value is not None}
        places = set(self.block.arguments) if self.is_body else set()
        final = len(self.kernels) - 1
        for place, kernel in enumerate(self.kernels):
            if kernel.inner:
                self.inner[place] = self._inside(kernel)
            spare = self._dying(kernel, place, outs)
            for value in kernel.writes:
                if value in outs and not self.is_body:
                    continue
                size = types[value].bytes
                if places and self._takes(kernel, place, size, places):
                    places.add(value)
                    continue
                if size in spare:
                    spare.remove(size)
                    self.shares.add(value)
                    change[place] -= size
                    change[place + 1] += size
                stop = final if value in outs else self.last[value]
                end[value] = stop
                change[place] += size
                change[stop + 1] -= size
        self.change = np.array(change)

    def _dying(self, kernel: Kernel, place: int, outs: set[int]) -> list[int]:
        """Sizes of what a kernel may write over."""
        if kernel.apart:
            return []
        if kernel.role not in _IN_PLACE and not isinstance(kernel.op, Control):
            return []
        last, end, types, apart = self.last, self.end, self.types, self.apart
        return [
            types[v].bytes
            for v in kernel.reads
            if last[v] == place and v in end and v not in outs and v not in apart
        ]

    def _takes(self, kernel: Kernel, place: int, size: int, places: set[int]) -> bool:
        """Whether a result takes the place of a loop's carried value."""
        if kernel.role not in _IN_PLACE:
            return False
        return any(
            v in places and self.last[v] == place and self.types[v].bytes == size
            for v in kernel.reads
        )

    def _inside(self, kernel: Kernel) -> float:
        """Peak of a loop's body or of the dearest branch."""
        types, schedule, others = self.types, self.schedule, self.others
        return max(
            LiveRanges(schedule(inner), types, schedule, True, others).peak()[0]
            for inner in kernel.inner
        )

    def add(self, size: int, start: int, stop: int, times: int = 1) -> None:
        """One more value in memory, or several of its size."""
        self.added.append((size, start, stop, times))
        self.change[start] += size * times
        self.change[stop + 1] -= size * times

    def lend(self, size: int, start: int, stop: int, times: int = 1) -> None:
        """A buffer that others may use from `start` until before `stop`, or several.

        What is written in place at `stop` may have been there before.
        """
        if stop < len(self.kernels) and self.kernels[stop].role in _IN_PLACE:
            stop += 1
        if start < stop:
            self.loans.append((size, start, stop - 1, times))

    def curve(self, more: Sizes) -> np.ndarray:
        """Bytes of temporaries at each place, with so many more that live there."""
        count = len(self.kernels)
        if self.loans:
            live, lent = self._sizes
            live = dict(live)
            for size, extra in more.items():
                live[size] = live[size] + extra if size in live else extra
            needed = not_hosted(live, lent)
        else:
            needed = np.cumsum(self.change)[:count] + sum(more.values())
        needed = needed - self.near.hidden(self._owned(), self.inner[:count])
        result: np.ndarray = np.maximum(needed, 0) + self.inner[:count]
        return result

    @cached_property
    def _sizes(self) -> tuple[Sizes, Sizes]:
        """What lives and what is lent; asked once all is known."""
        count = len(self.kernels)
        return by_size(self._owned(), count), by_size(self.loans, count)

    def _owned(self) -> Iterator[Buffer]:
        """Where each value has memory of its own, which is not what it began in."""
        types, born, shares = self.types, self.born, self.shares
        for value, last in self.end.items():
            first = born[value] + (value in shares)
            if first <= last:
                yield types[value].bytes, first, last, 1
        yield from self.added

    def peak(self) -> tuple[int, int]:
        """Most bytes, and where."""
        if not self.kernels:
            return 0, 0
        more: Iterable[Sizes] = ({},)
        if self.others:
            more = self.others.bytes_beside(self.block, self.born, self.end)
        curves = [self.curve(extra) for extra in more]
        curve = max(curves, key=lambda curve: float(curve.max()))
        place = int(np.argmax(curve))
        return int(curve[place]), place

    def alive(self, place: int) -> list[int]:
        """Values in memory there, largest first."""
        values = [v for v, stop in self.end.items() if self.born[v] <= place <= stop]
        return sorted(values, key=lambda v: -self.types[v].bytes)
