"""Where the repetitions of a folded program's kernels stand in the whole program.

A span is the place of the first and of the last repetition of a kernel; those between
are evenly apart. Places are op numbers of the source program, or levels where kernels
run as soon as they can: a kernel's level is one more than that of the last kernel that
it waits for. Levels of the first three repetitions are computed; after that, each
repetition is as far from the one before as the third is from the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from partir.simulate.fold_multiplicity import Multiplicity, Span
from partir.simulate.kernels.kernel import Kernel, Kernels, per_kernel
from partir.spmd.program import Collective


def program_spans(kernels: Sequence[Kernel], multiplicity: Multiplicity) -> list[Span]:
    """In the order of the source program.

    All-reduces of different repetitions at once come when all can be done.
    """

    def span(kernel: Kernel) -> Span:
        op = kernel.op
        if not isinstance(op, Collective):
            return multiplicity.spans[op.node]
        if len(kernel.members) < 2:
            return _move_span(op, multiplicity)
        each = [_move_span(member, multiplicity) for member in kernel.members]
        start, end = min(s for s, _ in each), max(e for _, e in each)
        once = len({multiplicity.of(member) for member in kernel.members}) > 1
        return (end + 1, end + 1) if once else (start, end)

    return per_kernel(kernels, multiplicity.spans, span)


def _move_span(op: Collective, multiplicity: Multiplicity) -> Span:
    _, producer, consumer = op.cause
    node = producer if consumer is None else consumer
    return (0, 0) if node is None else multiplicity.spans[node]


def taking_turns(block: Kernels) -> Set[int]:
    """Places of kernels whose repetitions wait for each other.

    What they read follows from what is handed to them, and from what they write what is
    handed on.
    """
    if not block.handed:
        return frozenset()
    repeated = [place for place, count in enumerate(block.counts) if count > 1]
    kernels, after = block.kernels, set(block.handed)
    for place in repeated:
        if not after.isdisjoint(kernels[place].reads):
            after.update(kernels[place].writes)
    before = {value for values in block.handed.values() for value in values}
    turns = set()
    for place in reversed(repeated):
        if not before.isdisjoint(kernels[place].writes):
            before.update(kernels[place].reads)
            if not after.isdisjoint(kernels[place].reads):
                turns.add(place)
    return turns


def level_spans(block: Kernels, turns: Mapping[int, int]) -> list[Span]:
    """Levels, of kernels in program order with their spans there.

    `turns` are kernels that wait for so many levels more.
    """
    levels = _Levels(block, turns)
    for start, stop in _passes(block.spans, levels.carries()):
        places = list(range(start, stop))
        while places:
            places = levels.add(places)
    return [
        _within(levels.spans[place], count) for place, count in enumerate(block.counts)
    ]


def _within(span: Span, count: int) -> Span:
    """Repetitions at one level come one after another all the same."""
    first, last = span
    return (first, first + 0.5) if count > 1 and first == last else span


def _passes(
    spans: Sequence[Span], carries: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Stretches of kernels whose repetitions take turns, as places from and to.

    They do if some of the later kernel's come before the last of the earlier one's, or
    if one repetition needs what the one before made: `carries` are places from which
    to which that goes.
    """
    first, end, until = 0, -1.0, 0
    for place, (start, stop) in enumerate(spans):
        if start > end and place > until:
            yield first, place
            first = place
        end = max(end, stop)
        until = max(until, carries.get(place, 0))
    yield first, len(spans)


class _Levels:
    """Finds the levels of kernels, pass by pass."""

    def __init__(self, block: Kernels, turns: Mapping[int, int]) -> None:
        self.kernels, self.counts = block.kernels, block.counts
        self.handed, self.turns = block.handed, turns
        self.maker = {v: n for n, k in enumerate(block.kernels) for v in k.writes}
        self.spans: dict[int, Span] = {}

    def carries(self) -> dict[int, int]:
        """Kernels that read what is handed to them, with the last that makes it."""
        last_makers = {
            first: max((self.maker.get(v, 0) for v in values), default=0)
            for first, values in self.handed.items()
        }
        return {
            place: max(last_makers.get(value, 0) for value in kernel.reads)
            for place, kernel in enumerate(self.kernels)
            if self.counts[place] > 1
            and not last_makers.keys().isdisjoint(kernel.reads)
        }

    def add(self, places: Sequence[int]) -> list[int]:
        """Kernels of a pass; those that wait until it is over are given back."""
        now, later = self._divided(places)
        known: list[dict[int, float]] = []
        for repetition in range(3):
            known.append({})
            for place in now:
                level = 1 + self._waits_for(place, repetition, known)
                known[-1][place] = level + self.turns.get(place, 0)
        for place in now:
            first, second, third = (each[place] for each in known)
            count = self.counts[place]
            last = first if count == 1 else second + (count - 2) * (third - second)
            self.spans[place] = first, max(first, last)
        return later

    def _divided(self, places: Sequence[int]) -> tuple[list[int], list[int]]:
        """What is done once with what all repetitions make waits for the last."""
        now: dict[int, None] = {}
        later: dict[int, None] = {}
        for place in places:
            makers = {self.maker.get(v) for v in self.kernels[place].reads}
            once = self.counts[place] == 1
            waits = not later.keys().isdisjoint(makers) or (
                once and any(m in now and self.counts[m] > 1 for m in makers if m)
            )
            (later if waits else now)[place] = None
        return list(now), list(later)

    def _waits_for(
        self, place: int, repetition: int, known: Sequence[Mapping[int, float]]
    ) -> float:
        """Level of the last thing that a repetition of a kernel waits for."""
        latest, repeated = 0.0, self.counts[place] > 1
        for value in self.kernels[place].reads:
            values: tuple[int, ...] = (value,)
            which = repetition
            if repeated and repetition and value in self.handed:
                values, which = self.handed[value], repetition - 1
            for one in values:
                maker = self.maker.get(one)
                if maker is None:
                    continue
                if maker in known[which]:
                    latest = max(latest, known[which][maker])
                elif maker in self.spans:
                    latest = max(latest, self._level(maker, which if repeated else -1))
        return latest

    def _level(self, place: int, repetition: int) -> float:
        """Level of a repetition of a kernel in an earlier pass; -1 is the last one."""
        (first, last), count = self.spans[place], self.counts[place]
        if count == 1 or repetition < 0:
            return last
        return first + repetition * (last - first) / (count - 1)
