"""Memory of the repetitions that a folded program does not have itself.

What lives from one pass over the repetitions to another (activations for the backward
pass, gradients for the optimizer) is there once per repetition, the rest once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from partir.simulate.kernels import Kernel
from partir.simulate.loans import Sizes, size_class
from partir.simulate.memory import Lives
from partir.simulate.multiplicity import Multiplicity
from partir.spmd.program import Collective, Control, SpmdProgram

_GAP = 16  # kernels


class Repetitions:
    """What the other repetitions of a folded program keep in memory."""

    def __init__(
        self,
        program: SpmdProgram,
        times: Multiplicity,
        kernels: Sequence[Kernel],
        weights: Sequence[int],
    ) -> None:
        """Kernels in their order, each with its repetitions."""
        self.program, self.times = program, times
        self.kernels, self.weights = kernels, weights

    def others(self, lives: Lives) -> tuple[Sizes, Sizes]:
        """Bytes of the other repetitions, at the first and at the last of a pass."""
        kernels, weights = self.kernels, self.weights
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
            for place, kernel in enumerate(self.kernels)
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
        return carried[kernel.writes.index(value)] if carried else 1

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
