"""Repeated structure: the layers of a model, found by the shape of its graph.

Unrolled layers leave a run of ops whose signatures repeat with a period. The longest
run that carries values from one repetition to the next is the seed of a *shift*: a map
from each op to the same op one repetition later. It grows along the edges of the graph,
from the forward pass to the backward pass and the optimizer, whatever their order.
No name is looked at.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from partir.ir.core import Program, Region
from partir.search.fold.dead import dead_ops

LEAST = 3  # repetitions that are worth folding
_CANDIDATES = 24  # periods that are tried


@dataclass(frozen=True, slots=True)
class Chain:
    """One op, or one argument, in each repetition from `first` to `last`.

    Repetitions of chains of one family are numbered alike.
    """

    members: tuple[int, ...]
    family: int
    first: int

    @property
    def last(self) -> int:
        """Number of the last repetition."""
        return self.first + len(self.members) - 1

    def at(self, repetition: int) -> int:
        """The member of a repetition."""
        return self.members[repetition - self.first]


@dataclass(frozen=True)
class Repeats:
    """Chains of ops and of arguments (values).

    `twins` are pairs of values that stand at one place of two repetitions although the
    first is in no chain.
    """

    ops: tuple[Chain, ...] = ()
    arguments: tuple[Chain, ...] = ()
    twins: tuple[tuple[int, int], ...] = ()


class Decisions(Protocol):
    """What was decided, which repetitions must have in common besides their shape."""

    def op(self, index: int) -> object:
        """Of an op."""
        ...

    def value(self, value: int) -> object:
        """Of an argument."""
        ...


def find_repeats(program: Program, decided: Decisions) -> Repeats:
    """All repeated structure of a program; nothing if there is none."""
    shift = _Shift(program, decided)
    for family, seed in enumerate(_seeds(program, decided)):
        shift.grow(seed, family)
    return Repeats(
        tuple(_chains(shift.ops, shift.places)),
        tuple(_chains(shift.arguments, shift.argument_places)),
    )


def _chains(following: dict[int, int], places: dict[int, Place]) -> Iterator[Chain]:
    """Follow the shift from every start, as long as it stays in one family."""
    image = set(following.values())
    for start in following:
        if start in image:
            continue
        members = [start]
        while members[-1] in following:
            members.append(following[members[-1]])
        if len(members) >= LEAST:
            votes = Counter(
                (places[m][0], places[m][1] - n) for n, m in enumerate(members[:-1])
            )
            (family, first), _ = votes.most_common(1)[0]
            yield Chain(tuple(members), family, first)


# Seeds: periodic runs in program order


Pair = tuple[int, int]  # op, the op one repetition later
Place = tuple[int, int]  # family, repetition
Seed = list[tuple[int, int, int]]  # pairs, each with its repetition


def _seeds(program: Program, decided: Decisions) -> Iterator[Seed]:
    """Runs that carry something from one repetition to the next, the longest first."""
    for region in open_regions(program):
        yield from _region_seeds(program, region, decided)


def open_regions(program: Program) -> list[Region]:
    """The body, and what is inside of loops that are there once."""
    loops = [op for op in map(program.ops.__getitem__, program.body.ops) if op.regions]
    counts = Counter(op.signature for op in loops)
    once = [op for op in loops if counts[op.signature] == 1 and len(op.regions) == 2]
    return [program.body, *(region for op in once for region in op.regions)]


def _region_seeds(
    program: Program, region: Region, decided: Decisions
) -> Iterator[Seed]:
    if not region.ops:
        return
    order = np.array(region.ops)
    numbers: dict[object, int] = {}
    keys = np.array(
        [
            numbers.setdefault(_key(program, int(i), decided), len(numbers))
            for i in order
        ]
    )
    taken = np.zeros(len(order), bool)
    for period, start, stop in _runs(keys):
        if taken[start:stop].any() or not _carries(
            program, order[start : stop + period], period
        ):
            continue
        taken[start : stop + period] = True
        yield [
            (int(order[i]), int(order[i + period]), (i - start) // period)
            for i in range(start, stop)
        ]


def _key(program: Program, index: int, decided: Decisions) -> object:
    """What two ops must share: signatures, those inside their regions included."""
    op = program.ops[index]
    inner = tuple(
        (program.ops[i].signature, decided.op(i))
        for region in op.regions
        for i in program.walk(region)
    )
    return op.signature, inner, decided.op(index)


def _runs(keys: np.ndarray) -> list[tuple[int, int, int]]:
    """(period, start, stop) with equal keys a period later; the longest first."""
    gaps: Counter[int] = Counter()
    last: dict[int, int] = {}
    for place, key in enumerate(keys.tolist()):
        if key in last:
            gaps[place - last[key]] += 1
        last[key] = place
    runs = []
    for period, _ in sorted(gaps.items(), key=lambda g: -g[0] * g[1])[:_CANDIDATES]:
        same = np.concatenate(([0], keys[:-period] == keys[period:], [0]))
        edges = np.flatnonzero(np.diff(same.astype(np.int8)))
        for start, stop in edges.reshape(-1, 2).tolist():
            if stop - start >= (LEAST - 1) * period:
                runs.append((period, start, stop))
    return sorted(runs, key=lambda run: (run[1] - run[2], run[0]))


def _carries(program: Program, run: np.ndarray, period: int) -> bool:
    """Whether the last repetition depends on the first, by way of the others."""
    reached: set[int] = set()
    last = 0
    for place, index in enumerate(run.tolist()):
        op = program.ops[index]
        if place < period or not reached.isdisjoint(op.operands):
            reached.update(op.results)
            last = place // period
    return last >= (len(run) - 1) // period


# Growing


class _Shift:
    """The map from ops and arguments to the same ones one repetition later."""

    def __init__(self, program: Program, decided: Decisions) -> None:
        self.program, self.decided = program, decided
        self.ops: dict[int, int] = {}
        self.arguments: dict[int, int] = {}
        self.region_of = {
            index: number
            for number, region in enumerate(open_regions(program))
            for index in region.ops
        }
        self.places: dict[int, Place] = {}
        self.argument_places: dict[int, Place] = {}
        self._dead = dead_ops(program)
        self._image: set[int] = set()
        self._argument_image: set[int] = set()

    def grow(self, seed: Seed, family: int) -> None:
        """Pair what the pairs read, then what reads them, until nothing is new."""
        todo: deque[Pair] = deque()
        for op, later, repetition in seed:
            if self._pair(op, later, (family, repetition)):
                todo.append((op, later))
        waiting = deque(todo)
        while todo or waiting:
            search = self._operands if todo else self._users
            op, later = (todo or waiting).popleft()
            for pair in search(op, later):
                if self._pair(*pair, self.places[op]):
                    todo.append(pair)
                    waiting.append(pair)

    def _pair(self, op: int, later: int, place: Place) -> bool:
        if op == later or op in self.ops or later in self._image:
            return False
        region = self.region_of.get(op)
        if region is None or region != self.region_of.get(later):
            return False
        if op in self._dead or later in self._dead:
            return False
        keys = (_key(self.program, one, self.decided) for one in (op, later))
        if next(keys) != next(keys):
            return False
        self.ops[op] = later
        self._image.add(later)
        self.places[op] = place
        return True

    def _operands(self, op: int, later: int) -> Iterator[Pair]:
        """What both read at the same place corresponds."""
        ops, makers = self.program.ops, self.program.producers
        for one, other in zip(ops[op].operands, ops[later].operands, strict=True):
            maker, maker_later = makers.get(one), makers.get(other)
            if maker is None and maker_later is None:
                self._argument(one, other, self.places[op])
            elif maker is not None and maker_later is not None:
                yield maker, maker_later

    def _argument(self, one: int, other: int, place: Place) -> None:
        types = self.program.types
        known = one in self.arguments or other in self._argument_image
        alike = types[one] is types[other]
        alike = alike and self.decided.value(one) == self.decided.value(other)
        if one != other and not known and alike:
            self.arguments[one] = other
            self._argument_image.add(other)
            self.argument_places[one] = place

    def _users(self, op: int, later: int) -> Iterator[Pair]:
        """What reads both at the same place in the same way corresponds."""
        ops = self.program.ops
        for one, other in zip(ops[op].results, ops[later].results, strict=True):
            ours, theirs = self._readers(one), self._readers(other)
            for key, readers in ours.items():
                matching = theirs.get(key, [])
                if len(readers) == len(matching):
                    yield from zip(readers, matching, strict=True)

    def _readers(self, value: int) -> dict[object, list[int]]:
        """Readers by what they are and where they read the value."""
        readers: dict[object, list[int]] = {}
        for reader in self.program.uses.get(value, ()):
            if reader in self.region_of:
                op = self.program.ops[reader]
                key = (op.signature, op.operands.index(value))
                readers.setdefault(key, []).append(reader)
        return readers
