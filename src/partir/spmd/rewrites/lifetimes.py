"""How much memory a block's values take while it runs, for rewrites that hold some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from partir.spmd.program import FoldedRepeats, SpmdOp
from partir.spmd.rewrites.sweep import Sweep, reads_by_op


class Lifetimes:
    """Bytes of a block's values that are alive at each op, and who reads them last."""

    def __init__(self, sweep: Sweep, ops: Sequence[SpmdOp]) -> None:
        """Of a block as it is."""
        self.born = born = {v: n for n, op in enumerate(ops) for v in op.results}
        self.last = last = dict(born)
        last.update({v: n for n, read in enumerate(reads_by_op(ops)) for v in read})
        last.update(dict.fromkeys(sweep.block.results, len(ops) - 1))
        self.types = types = sweep.types
        sizes = [types[value].bytes for value in born]
        change = [0] * (len(ops) + 1)
        for size, (value, place) in zip(sizes, born.items(), strict=True):
            change[place] += size
            change[last[value] + 1] -= size
        repeats = sweep.program.repeats
        if repeats is not None:
            runs = _Runs(repeats, ops)
            for size, (value, place) in zip(sizes, born.items(), strict=True):
                for start, stop, count in runs.others(place, last[value]):
                    change[start] += size * count
                    change[stop] -= size * count
        self.bytes = np.cumsum(change[:-1])
        self.peak = int(self.bytes.max(initial=0))

    def lasts(self, value: int, other: int) -> bool:
        """Whether a value may stand in for a later equal one at no cost.

        It is then held from its own last use on. That is free if no more is alive
        there, with it, than where most is.
        """
        held = self.bytes[self.last[value] + 1 : self.born[other]]
        if not held.size:
            return True
        return bool(held.max() + self.types[value].bytes <= self.peak)

    def replaces(self, value: int, source: int, last: int) -> bool:
        """Whether a value, if held, takes no more than what it was made of does.

        That is held until the `last` value like this one is made of it.
        """
        shorter = source in self.born and self.last[source] <= self.born[last]
        return shorter and self.types[value].bytes <= self.types[source].bytes

    def hold(self, value: int, other: int) -> None:
        """Let a value stand in for a later one."""
        size = self.types[value].bytes
        self.bytes[self.last[value] + 1 : self.born[other]] += size
        self.last[value] = max(self.last[value], self.last[other])


class _Runs:
    """Runs of ops of a folded program that are repeated together.

    A value that outlives its run is there once for each repetition that has made its
    own and not yet read it: all of them between runs, half of them, on average, in the
    runs where they are made and read.
    """

    def __init__(self, repeats: FoldedRepeats, ops: Sequence[SpmdOp]) -> None:
        self._run: list[tuple[int, int, int]] = []  # of each op: start, end, times
        for times, group in groupby(map(repeats.times, ops)):
            start = len(self._run)
            end = start + sum(1 for _ in group)
            self._run += [(start, end, times)] * (end - start)

    def others(self, born: int, last: int) -> Iterator[tuple[int, int, int]]:
        """From where to where how many other repetitions of a value are there."""
        _, end, times = self._run[born]
        start, _, _ = self._run[last]
        is_result = last == len(self._run) - 1
        if times > 1 and (start >= end or is_result):
            some, between = (times - 1) // 2, max(start, end)
            yield from ((born, end, some), (end, between, times - 1))
            yield between, last + 1, times - 1 if is_result else some
