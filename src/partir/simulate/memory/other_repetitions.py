"""Memory of the repetitions that a folded program does not have itself.

What lives from one pass over the repetitions to another (activations for the backward
pass, gradients for the optimizer) is there once per repetition, the rest once. How many
others there are at a time follows from where in the whole their makers and their last
readers stand (`kernels/repetition_spans.py`): as many as are made and not yet read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from partir.ir.types import TensorType
from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.kernel import Kernels
from partir.simulate.memory.buffer_reuse import Sizes, size_class
from partir.spmd.program import Control

_LITTLE = 1e-6


class OtherRepetitions:
    """What the repetitions that a folded program has not itself keep in memory."""

    def __init__(self, types: Sequence[TensorType], multiplicity: Multiplicity) -> None:
        self.types, self.multiplicity = types, multiplicity

    def bytes_beside(
        self,
        block: Kernels,
        born: Mapping[int, int],
        end: Mapping[int, int],
        shares: Set[int] = frozenset(),
    ) -> tuple[Sizes, Sizes]:
        """Bytes of the others, beside each kernel's first and its last repetition.

        `born` and `end` are where the values of the block begin and end to live;
        `shares` begin in the memory of others.
        """
        beside = _Beside(self.types, self.multiplicity, block, shares)
        return beside.bytes(born, end)


class _Others(NamedTuple):
    """A value of other repetitions: how many, the size of one, when made and last read.

    The first is made at `made`, the next ones `made_apart` later each; so for `read`.
    """

    size_class: int
    number: int
    size: int
    made: float
    made_apart: float
    read: float
    read_apart: float


class _Beside:
    """What is beside the kernels of one block."""

    def __init__(
        self,
        types: Sequence[TensorType],
        multiplicity: Multiplicity,
        block: Kernels,
        shares: Set[int],
    ) -> None:
        self.types, self.multiplicity, self.block = types, multiplicity, block
        self.shares = shares
        self.counts = block.counts

    def bytes(
        self, born: Mapping[int, int], end: Mapping[int, int]
    ) -> tuple[Sizes, Sizes]:
        """By size class."""
        values = sorted(self._others(born, end))
        if not values:
            return {}, {}
        firsts, lasts = np.array(self.block.spans, float).T
        both = _beside(values, firsts, lasts)
        starts: dict[int, int] = {}  # where each size class begins
        for place, one in enumerate(values):
            starts.setdefault(one.size_class, place)
        sums = np.add.reduceat(both, list(starts.values()))
        early, late = np.split(sums, 2, axis=1)
        return dict(zip(starts, early, strict=True)), dict(
            zip(starts, late, strict=True)
        )

    def _others(
        self, born: Mapping[int, int], end: Mapping[int, int]
    ) -> Iterator[_Others]:
        """Values of which there are several at a time."""
        spans, counts, types = self.block.spans, self.counts, self.types
        until = self._handed_until() if self.block.handed else {}
        terms = self.block.terms
        for value, stop in end.items():
            place = born[value]
            count = self._value_count(place, value)
            if count == 1:
                continue
            (first, last), reader = spans[place], until.get(value, stop)
            apart, size = (last - first) / (count - 1), types[value].bytes
            read, last_read = spans[reader]
            lived = max(read - first, last_read - last)
            if apart and lived < apart and counts[reader] > 1:
                if value not in terms:
                    continue  # read before the next is made
                most, read = terms[value]
                count = min(count, most)
                first, other = last - (count - 1) * apart, 0.0
            else:
                other = (last_read - read) / max(counts[reader] - 1, 1)
            first += _LITTLE * (value in self.shares)  # beside its maker: another's
            yield _Others(size_class(size), count - 1, size, first, apart, read, other)

    def _value_count(self, place: int, value: int) -> int:
        """Repetitions of a value that a kernel writes."""
        kernel = self.block.kernels[place]
        if kernel.inner:  # what a loop carries
            assert isinstance(kernel.op, Control)
            carried = self.multiplicity.carried.get(kernel.op.node)
            return carried[kernel.writes.index(value)] if carried else 1
        if len(kernel.members) > 1:
            (member,) = (m for m in kernel.members if m.result == value)
            return self.multiplicity.of(member)
        return self.counts[place]

    def _handed_until(self) -> dict[int, int]:
        """Where what is handed on is last read, in the repetition that gets it.

        That is where the first repetition last reads what it gets instead.
        """
        handed = self.block.handed
        known = {*handed, *(v for values in handed.values() for v in values)}
        last: dict[int, int] = {}
        for place, kernel in enumerate(self.block.kernels):
            if not known.isdisjoint(kernel.writes):
                last.update((v, place) for v in kernel.writes if v in known)
            if self.counts[place] > 1 and not known.isdisjoint(kernel.reads):
                last.update((v, place) for v in kernel.reads if v in known)
        until: dict[int, int] = {}
        for first, values in handed.items():
            for value in values:
                own = until.get(value, last.get(value, 0))
                until[value] = max(own, last.get(first, 0))
        return until


def _beside(
    values: Sequence[_Others], firsts: np.ndarray, lasts: np.ndarray
) -> np.ndarray:
    """Bytes of each value's other repetitions at these times.

    Beside a kernel's first repetition these are all but the first, beside its last all
    but the last.
    """
    columns = np.array(values, float).T[:, :, None]
    _, number, size, made, made_apart, read, read_apart = columns
    times = np.concatenate((firsts, lasts))
    shift = np.repeat((0.0, 1.0), len(firsts))
    born = np.floor((times - made) / np.maximum(made_apart, _LITTLE)) + shift
    gone = np.ceil((times - read) / np.maximum(read_apart, _LITTLE)) - 1 + shift
    born = np.where(made_apart > 0, np.clip(born, 0, number), number)  # else at once
    born = np.where(times >= made, born, 0)
    gone = np.where(times > read, np.clip(gone, 0, number), 0)
    result: np.ndarray = np.maximum(born - gone, 0) * size
    return result
