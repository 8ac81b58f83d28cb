"""Live ranges: where in the schedule each value is in memory.

A value lives from the kernel that writes it to the last that reads it. A kernel writes
in place where it is elementwise and what it reads is needed no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

import numpy as np

from partir.ir.types import TensorType
from partir.rules.traits import Role
from partir.simulate.kernels.kernel import Kernel, Kernels, is_product
from partir.simulate.memory.buffer_reuse import Buffer, Sizes, by_size, not_hosted
from partir.simulate.memory.fused_values import ARITHMETIC, fused_values
from partir.simulate.memory.habits import NO_HABITS, MemoryHabits
from partir.simulate.memory.near_memory import NO_NEAR_MEMORY
from partir.simulate.memory.order import ordered_for_memory
from partir.simulate.memory.other_repetitions import OtherRepetitions
from partir.spmd.program import Collective, Compute, Control

_IN_PLACE = ARITHMETIC | {Role.UPDATE}


class LiveRanges:
    """Live ranges of a block's values in memory, by position in the schedule."""

    def __init__(
        self,
        block: Kernels,
        types: Sequence[TensorType],
        schedule: Callable[[Kernels], Kernels],
        is_body: bool,
        others: OtherRepetitions | None = None,
        habits: MemoryHabits = NO_HABITS,
    ) -> None:
        self.habits = habits
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
        self.same: dict[int, int] = {}  # what barriers hand on, and what that is
        self.apart = {v for k in self.kernels if k.apart for v in k.writes}
        self.in_parts = {v for k in self.kernels if _in_parts(k) for v in k.writes}
        self.fused = fused_values(block, types) if habits.over_fused else None
        self._ranges()
        self.made_there = self._made_there() if is_body else set[int]()
        self._values()
        self._workspaces()

    def _ranges(self) -> None:
        last, born, same = self.last, self.born, self.same
        for place, kernel in enumerate(self.kernels):
            for value in kernel.reads:
                last[same.get(value, value)] = place
            for value, source in kernel.handed_on:
                same[value] = same.get(source, source)
            for value in kernel.writes:
                if value not in same:
                    born[value] = last[value] = place

    def _values(self) -> None:
        types, end = self.types, self.end
        change = [0.0] * len(self.change)
        outs = {self.same.get(v, v) for v in self.block.results if v is not None}
        places = set(self.block.arguments) if self.is_body else set()
        final = len(self.kernels) - 1
        for place, kernel in enumerate(self.kernels):
            if kernel.inner:
                self.inner[place] = self._inside(kernel)
            spare = self._dying(kernel, place, outs)
            for value in kernel.writes:
                elsewhere = value in self.made_there or value in self.same
                if elsewhere or (value in outs and not self.is_body):
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

    def _workspaces(self) -> None:
        """Add what products need for themselves."""
        size = self.habits.product_bytes
        for place, kernel in enumerate(self.kernels if size else ()):
            if is_product(kernel):
                self.add(size, place, place)

    def _made_there(self) -> set[int]:
        """What is made in the stack that it is put into, which the loop carries.

        That is what computation makes for nothing else, by way of elementwise kernels
        too. What collectives make lies elsewhere.
        """
        if not self.habits.into_stacks:
            return set()
        readers = Counter(v for kernel in self.kernels for v in set(kernel.reads))
        makers = {
            value: kernel
            for kernel in self.kernels
            if type(kernel.op) is Compute
            for value in kernel.writes
            if readers[value] == 1 and value not in self.block.results
        }
        found = set[int]()
        for kernel in reversed(self.kernels):
            if kernel.role is Role.UPDATE:
                found.update(v for v in kernel.reads[1:] if v in makers)
            elif kernel.role in _IN_PLACE and not found.isdisjoint(kernel.writes):
                size = self.types[kernel.writes[0]].bytes
                reads = (v for v in kernel.reads if v in makers)
                same = (v for v in reads if self.types[v].bytes == size)
                found.update(islice(same, 1))
        return found

    def _dying(self, kernel: Kernel, place: int, outs: set[int]) -> list[int]:
        """Sizes of what a kernel may write over."""
        reduces = self._reduces_in_place(kernel)
        control = isinstance(kernel.op, Control)
        if kernel.apart or not (kernel.role in _IN_PLACE or control or reduces):
            return []
        kept = outs | self.apart | (self.in_parts if reduces else set())
        last, end, types = self.last, self.end, self.types
        sources = self._sources(kernel)
        dying = [v for v in sources if last[v] == place and v in end and v not in kept]
        if self.fused is not None and kernel.role in ARITHMETIC:
            dying = self.fused.overwritable(kernel, dying, types)
        return [types[v].bytes for v in dying]

    def _sources(self, kernel: Kernel) -> Iterable[int]:
        """What a kernel reads, as it was before barriers handed it on."""
        if not self.same:
            return kernel.reads
        return dict.fromkeys(self.same.get(value, value) for value in kernel.reads)

    def _reduces_in_place(self, kernel: Kernel) -> bool:
        """Whether it is an all-reduce that writes over what it reads."""
        reduces = isinstance(kernel.op, Collective) and kernel.op.kind == "all_reduce"
        return reduces and self.habits.reduces_in_place

    def _takes(self, kernel: Kernel, place: int, size: int, places: set[int]) -> bool:
        """Whether a result takes the place of a loop's carried value."""
        if kernel.role not in _IN_PLACE:
            return False
        return any(
            v in places and self.last[v] == place and self.types[v].bytes == size
            for v in self._sources(kernel)
        )

    def _inside(self, kernel: Kernel) -> float:
        """Peak of a loop's body or of the dearest branch."""
        types, schedule, others = self.types, self.schedule, self.others
        inside = replace(self.habits, near=NO_NEAR_MEMORY)

        def ahead(block: Kernels) -> Kernels:
            return ordered_for_memory(schedule(block), inside.gathers_ahead, False)

        return max(
            LiveRanges(ahead(inner), types, schedule, True, others, inside).peak()[0]
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
        if stop < len(self.kernels):
            maker = self.kernels[stop]
            stop += maker.role in _IN_PLACE or self._reduces_in_place(maker)
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
        needed = needed - self.habits.near.hidden(self._owned(), self.inner[:count])
        result: np.ndarray = np.maximum(needed + self.inner[:count], 0)
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
            more = self.others.bytes_beside(
                self.block, self.born, self.end, self.shares
            )
        curves = [self.curve(extra) for extra in more]
        curve = max(curves, key=lambda curve: float(curve.max()))
        place = int(np.argmax(curve))
        return int(curve[place]), place

    def alive(self, place: int) -> list[int]:
        """Values in memory there, largest first."""
        values = [v for v, stop in self.end.items() if self.born[v] <= place <= stop]
        return sorted(values, key=lambda v: -self.types[v].bytes)


def _in_parts(kernel: Kernel) -> bool:
    """Whether what it makes is put together part by part: by a loop or a scatter."""
    return bool(kernel.inner) or kernel.role is Role.UPDATE
