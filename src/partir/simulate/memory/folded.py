"""Memory of the repetitions that a folded program does not have itself.

What lives from one pass over the repetitions to another (activations for the backward
pass, gradients for the optimizer) is there once per repetition, the rest once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partir.simulate.fold_multiplicity import Multiplicity, Span
from partir.simulate.kernels.kernel import Kernel
from partir.simulate.memory.buffer_reuse import Sizes, size_class
from partir.simulate.memory.live_ranges import Lives
from partir.spmd.program import Collective, Control, SpmdProgram


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
        passes, types = _Passes.of(self._spans(), loops), self.program.types
        early_by, late_by = _Changes(len(kernels)), _Changes(len(kernels))
        until = self._handed_until() if self.times.handed else {}
        for value, end in lives.end.items():
            place = lives.born[value]
            weight = weights[place]
            if loops[place]:
                weight = self._carried_weight(kernels[place], value)
            elif len(kernels[place].members) > 1:
                weight = self._combined_weight(kernels[place], value)
            if weight == 1:
                continue
            made, last = passes.number[place], until.get(value, end)
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

    def _spans(self) -> Iterator[Span]:
        """Where the repetitions of each kernel begin and end in the whole program.

        All-reduces of different repetitions at once come when all can be done.
        """
        spans = self.times.spans
        for kernel in self.kernels:
            op = kernel.op
            if not isinstance(op, Collective):
                yield spans[op.node]
                continue
            members = kernel.members
            if len(members) < 2:
                yield self._move_span(op)
                continue
            found = [self._move_span(member) for member in members]
            start, end = min(s for s, _ in found), max(e for _, e in found)
            once = len({self.times.of(member) for member in members}) > 1
            yield (end + 1, end + 1) if once else (start, end)

    def _move_span(self, op: Collective) -> Span:
        _, producer, consumer = op.cause
        node = producer if consumer is None else consumer
        return (0, 0) if node is None else self.times.spans[node]

    def _handed_until(self) -> dict[int, int]:
        """Where what is handed on is last read, in the repetition that gets it.

        That is where the first repetition last reads what it gets instead.
        """
        forms = self._forms()
        known = {value for values in forms.values() for value in values}
        last: dict[int, int] = {}
        for place, (kernel, weight) in enumerate(
            zip(self.kernels, self.weights, strict=True)
        ):
            if not known.isdisjoint(kernel.writes):
                last.update((v, place) for v in kernel.writes if v in known)
            if weight > 1 and not known.isdisjoint(kernel.reads):
                last.update((v, place) for v in kernel.reads if v in known)
        found = {}
        for value, first in self.times.handed.items():
            end = max((last.get(v, 0) for v in forms.get(first, ())), default=0)
            for own in forms.get(value, ()):
                found[own] = max(last.get(own, 0), end)
        return found

    def _forms(self) -> dict[int, list[int]]:
        """Values in memory that are what is handed on, or what the first gets."""
        whole = self.program.program
        wanted = {v for pair in self.times.handed.items() for v in pair}
        makers = {whole.producers.get(v) for v in wanted}
        found: dict[int, list[int]] = {}
        for kernel in self.kernels:
            op = kernel.op
            if isinstance(op, Collective):
                for member in kernel.members or (op,):
                    if member.cause.value in wanted:
                        found.setdefault(member.cause.value, []).append(member.result)
            elif op.node in makers:
                results = whole.ops[op.node].results
                for source, value in zip(results, op.results, strict=True):
                    found.setdefault(source, []).append(value)
        arguments = whole.body.arguments, self.program.body.arguments
        for source, value in zip(*arguments, strict=True):
            if source in wanted:
                found.setdefault(source, []).append(value)
        return found

    def _combined_weight(self, kernel: Kernel, value: int) -> int:
        """Repetitions of one of several all-reduces that are done at once."""
        (found,) = (m for m in kernel.members if m.result == value)
        return self.times.of(found)

    def _carried_weight(self, kernel: Kernel, value: int) -> int:
        """How many values one that a loop carries stands for."""
        assert isinstance(kernel.op, Control)
        carried = self.times.carried.get(kernel.op.node)
        return carried[kernel.writes.index(value)] if carried else 1


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
    """Stretches of kernels whose repetitions take turns: number of each, first, last.

    Repetitions take turns if some of the later kernel's come before the last of the
    earlier one's. A loop is a pass of its own: all that it carries is there at once.
    """

    number: list[int]
    first: list[int]
    last: list[int]

    @classmethod
    def of(cls, spans: Iterable[Span], loops: Iterable[bool]) -> _Passes:
        """Of kernels in order; `spans` is where their repetitions begin and end."""
        numbers: list[int] = []
        first: list[int] = []
        end, after_loop = -1, False
        for place, ((start, stop), loop) in enumerate(zip(spans, loops, strict=True)):
            if start > end or loop or after_loop:
                first.append(place)
                end = stop
            end, after_loop = max(end, stop), loop
            numbers.append(len(first) - 1)
        last = [place - 1 for place in (*first[1:], len(numbers))]
        return cls(numbers, first, last)
