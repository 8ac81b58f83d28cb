"""Peak memory of one device: live ranges over the schedule.

Arguments and results are there for the whole step; a result that takes a donated
argument's buffer needs none of its own. Everything else lives from the kernel that
writes it to the last that reads it. A kernel writes in place where it is elementwise
and what it reads is needed no more. As in XLA, a donated argument that is still read
when its successor may be written is copied, and buffers of results are lent to others
until the results are written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partir.ir.types import TensorType
from partir.simulate.fusion import Role
from partir.simulate.kernels import Kernel, Kernels
from partir.simulate.loans import Buffer, Sizes, by_size, not_hosted
from partir.simulate.multiplicity import Multiplicity
from partir.spmd.program import Control, SpmdProgram

_IN_PLACE = frozenset((Role.CHEAP, Role.COSTLY, Role.UPDATE))


@dataclass(frozen=True, slots=True)
class Alive:
    """Something in memory at the peak."""

    name: str
    type: str
    bytes: int

    def __str__(self) -> str:
        """Bytes, type and name."""
        return f"{self.bytes:>14,}  {self.type:24} {self.name}"


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes at the peak: in all, and by what they are for."""

    argument_bytes: int
    result_bytes: int
    temporary_bytes: int
    results: tuple[int, ...]  # numbers of the results that have their own buffers
    alive: tuple[int, ...]  # temporaries at the peak
    copied: tuple[int, ...]  # donated arguments that have to be copied

    @property
    def bytes(self) -> int:
        """Everything."""
        return self.argument_bytes + self.result_bytes + self.temporary_bytes


def peak_memory(
    program: SpmdProgram,
    block: Kernels,
    donated: Sequence[bool],
    schedule: Callable[[Kernels], Kernels],
) -> Peak:
    """Peak of a program whose kernels are in order; `schedule` orders loops' bodies."""
    types = program.types
    lives, own, copied = lives_of(program, block, donated, schedule)
    temporary, at = lives.peak()
    return Peak(
        sum(types[v].bytes for v in program.body.arguments),
        sum(types[program.body.results[n]].bytes for n in own),
        temporary,
        tuple(own),
        tuple(lives.alive(at)),
        copied,
    )


def lives_of(
    program: SpmdProgram,
    block: Kernels,
    donated: Sequence[bool],
    schedule: Callable[[Kernels], Kernels],
    times: Multiplicity | None = None,
) -> tuple[Lives, list[int], tuple[int, ...]]:
    """Live ranges, the results with their own buffers, the arguments to be copied.

    `times` is how often each argument and result is there, if not once.
    """
    types, body = program.types, program.body
    pairs = times.succeeded if times else None
    successors, own = _aliases(program, block, donated, pairs)
    copied = tuple(_to_copy(block, successors))
    lives = Lives(block, types, schedule, is_body=False)
    arguments = times.arguments if times else (1,) * len(body.arguments)
    results = times.results if times else (1,) * len(body.results)
    count = dict(zip(body.arguments, arguments, strict=True))
    for value in copied:
        size = types[value].bytes
        lives.add(size, 0, lives.last.get(value, 0), count[value])
        lives.lend(size, 1, lives.born[successors[value]], count[value])
    for number in own:
        result = block.results[number]
        if result in lives.born:
            size = types[body.results[number]].bytes
            lives.lend(size, 0, lives.born[result], results[number])
    return lives, own, copied


def _aliases(
    program: SpmdProgram,
    block: Kernels,
    donated: Sequence[bool],
    succeeded: Sequence[int | None] | None,
) -> tuple[dict[int, int], list[int]]:
    """Donated arguments with the results that take their place.

    Also the numbers of the results that need their own buffers.
    """
    body, types = program.body, program.types
    ins = [
        (types[v], t) for v, t in zip(body.arguments, program.in_tilings, strict=True)
    ]
    outs = [
        (types[v], t) for v, t in zip(body.results, program.out_tilings, strict=True)
    ]
    if succeeded is None:
        succeeded = paired(ins, outs, donated)
    pairs: dict[int, int] = {}
    own: list[int] = []
    for number, (place, base) in enumerate(zip(succeeded, block.results, strict=True)):
        if place is None or not donated[place] or ins[place] != outs[number]:
            own.append(number)
        elif base is not None:
            pairs.setdefault(body.arguments[place], base)
    return pairs, own


def paired(
    arguments: Sequence[object], results: Sequence[object], donated: Sequence[bool]
) -> list[int | None]:
    """The donated argument whose place each result takes, as jax pairs them."""
    free: dict[object, deque[int]] = {}
    for place, (argument, given) in enumerate(zip(arguments, donated, strict=True)):
        if given:
            free.setdefault(argument, deque()).append(place)
    return [free[r].popleft() if free.get(r) else None for r in results]


def _to_copy(block: Kernels, successors: dict[int, int]) -> list[int]:
    """Donated arguments that some kernel may still read when they are overwritten."""
    maker: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    bits: dict[int, int] = {}
    before = [0] * len(block.kernels)
    for number, kernel in enumerate(block.kernels):
        waits = 0
        for value in kernel.reads:
            if value in maker:
                waits |= before[maker[value]]
            elif value in successors:
                readers.setdefault(value, []).append(number)
                bits.setdefault(number, 1 << len(bits))
        before[number] = waits | bits.get(number, 0)
        for value in kernel.writes:
            maker[value] = number
    found = []
    for argument, result in successors.items():
        writer = maker.get(result)
        if writer is None or argument == result:
            continue
        seen = before[writer]
        if any(not seen & bits[reader] for reader in readers.get(argument, ())):
            found.append(argument)
    return found


class Lives:
    """Live ranges of a block's values in memory, by position in the schedule."""

    def __init__(
        self,
        block: Kernels,
        types: Sequence[TensorType],
        schedule: Callable[[Kernels], Kernels],
        is_body: bool,
    ) -> None:
        self.block, self.types, self.schedule = block, types, schedule
        self.is_body = is_body
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
            elif kernel.copied:  # what is read no more gives way to its copy
                self.inner[place] = sum(
                    types[v].bytes for v in kernel.copied if self.last[v] > place
                )
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
        if kernel.role not in _IN_PLACE and not isinstance(kernel.op, Control):
            return []
        last, end, types = self.last, self.end, self.types
        return [
            types[v].bytes
            for v in kernel.reads
            if last[v] == place and v in end and v not in outs
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
        return max(
            Lives(self.schedule(inner), self.types, self.schedule, True).peak()[0]
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

    def curve(self, more: Sizes | None = None) -> np.ndarray:
        """Bytes of temporaries at each place, with so many more that live there."""
        count = len(self.kernels)
        if self.loans:
            live, lent = self._sizes
            live = dict(live)
            for size, extra in (more or {}).items():
                live[size] = live[size] + extra if size in live else extra
            needed = not_hosted(live, lent)
        else:
            needed = np.cumsum(self.change)[:count] + sum((more or {}).values())
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
        curve = self.curve()
        if not len(curve):
            return 0, 0
        place = int(np.argmax(curve))
        return int(curve[place]), place

    def alive(self, place: int) -> list[int]:
        """Values in memory there, largest first."""
        found = [v for v, stop in self.end.items() if self.born[v] <= place <= stop]
        return sorted(found, key=lambda v: -self.types[v].bytes)
