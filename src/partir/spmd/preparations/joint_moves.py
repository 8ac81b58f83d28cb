"""Small values that go to other devices together, in one collective.

A collective costs a meeting of all its devices, whatever it carries. XLA on CPUs
combines sums, but its devices meet for each of them all the same; gathers and scatters
it leaves alone. So small ones of one kind are done as one: sums and scatters wait for
each other until the first of them is read, gathers are done as soon as the first of
them is needed. How much waits, or comes early, is limited.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from weakref import WeakKeyDictionary

from partir.ir.types import TensorType
from partir.rules.identities import TOGETHER, cites
from partir.rules.traits import Role, role_of
from partir.spmd.preparations.weight_sizes import gathers_most
from partir.spmd.program import (
    Collective,
    Compute,
    Control,
    SpmdOp,
    SpmdProgram,
)
from partir.spmd.rewrites.lifetimes import Lifetimes
from partir.spmd.rewrites.sweep import Sweep, reads_of

# Bytes of a value; copying twice as much costs as much as a meeting. Sums that a
# compiler combines cost less, and may lie in memory as they are made.
SMALL = {"all_reduce": 1 << 15, "reduce_scatter": 1 << 17, "all_gather": 1 << 17}
LITTLE, MUCH = 1 << 16, 1 << 21  # bytes that are sent together at any rate, and at most
_SHARE = 16  # of what is in memory: this part of it is sent together
_REST = 8  # no part as small as this of what is sent together is left for another time
Key = tuple[object, ...]


def joint_of(op: SpmdOp) -> int:
    """The number that ops have in common that are done as one; none if negative."""
    return op.joint if type(op) is Collective else -1


@cites(TOGETHER)
def move_together(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Put small collectives of a kind next to each other, and number them as one.

    rewrite:
        %1 = all_reduce {B} %x ; … ; %2 = all_reduce {B} %y ; f %1
        ->
        … ; %1 = all_reduce {B} %x with %2 = all_reduce {B} %y ; f %1
    """
    keys = [_key(sweep.types, op) for op in sweep.block.moves]
    some = [key for key in keys if key is not None]
    if len(set(some)) == len(some):
        return ops
    return _Together(sweep, ops).run()


def joins_moves(program: SpmdProgram) -> bool:
    """Whether any collectives of a program are done as one."""
    keys = [_key(program.types, op) for op in program.moves]
    some = [key for key in keys if key is not None]
    return len(set(some)) < len(some)


def _key(types: Sequence[TensorType], op: Collective) -> Key | None:
    """Equal for collectives that can be done as one; None if it is to stay alone."""
    if not 0 < _bytes(types, op) <= SMALL.get(op.kind, 0):
        return None
    return op.kind, op.axes, op.monoid, types[op.operand].dtype


def _bytes(types: Sequence[TensorType], op: Collective) -> int:
    return max(types[op.operand].bytes, types[op.result].bytes)


_LIMITS: WeakKeyDictionary[Sweep, int] = WeakKeyDictionary()  # of the blocks of one


def _limit(sweep: Sweep) -> int:
    """How many bytes go together: what waits, and what comes early, is in memory.

    Where weights are gathered, that they are in memory one by one matters more.
    """
    if sweep not in _LIMITS and gathers_most(sweep.program):
        _LIMITS[sweep] = LITTLE
    elif sweep not in _LIMITS:
        whole = Sweep(sweep.program)
        peak = Lifetimes(whole, sweep.program.body.ops).peak
        _LIMITS[sweep] = max(LITTLE, min(MUCH, peak // _SHARE))
    return _LIMITS[sweep]


class _Together:
    """The ops of a block, written anew.

    Collectives that wait for each other are a group, named by what the first of them
    makes. Ops that read what is not there yet are behind: each counts what it lacks.
    """

    def __init__(self, sweep: Sweep, ops: Sequence[SpmdOp]) -> None:
        self.sweep, self.types, self.ops = sweep, sweep.types, ops
        self.made: list[SpmdOp] = []
        self.joins = False  # whether any are done as one
        self.waiting: dict[Key, list[Collective]] = {}
        self.sizes: dict[Key, int] = {}  # bytes of what is waiting
        self.totals: dict[Key, int] = {}  # of all that may go together
        self.groups: dict[int, Key] = {}  # those that are waiting
        self.needs: dict[int, frozenset[int]] = {}  # groups that a value waits for
        self.lacks: dict[int, int] = {}  # of ops behind, by place: values not there
        self.readers: dict[int, list[int]] = {}  # of these values, by place
        self.free: list[int] = []  # ops that were behind and lack nothing, a heap
        self.early: set[int] = set()  # results that were sent before their place
        self.keys: dict[int, Key] = {}  # of what may go together, by place
        self.ready: dict[Key, list[int]] = {}  # places of what could be sent
        self.movers: dict[int, list[int]] = {}  # of what is not there, by place
        here = {value for op in ops for value in op.results}
        for place, op in enumerate(ops):
            if type(op) is Collective:
                self._find(op, place, here)

    def _find(self, op: Collective, place: int, here: set[int]) -> None:
        key = _key(self.types, op)
        if key is not None:
            self.keys[place] = key
            self.totals[key] = self.totals.get(key, 0) + _bytes(self.types, op)
            found = self.ready.setdefault(key, [])
            if op.operand in here:
                found = self.movers.setdefault(op.operand, [])
            found.append(place)

    def run(self) -> Sequence[SpmdOp]:
        # Most ops neither read what is not there yet, nor make what is to be sent.
        late, moved, made = self.needs.keys(), self.movers.keys(), self.made
        for place, op in enumerate(self.ops):
            if type(op) is Compute and late.isdisjoint(op.operands):
                if moved.isdisjoint(op.results):
                    made.append(op)
                else:
                    self._add(op)
            elif self.early.isdisjoint(op.results):
                self._take(op, place)
        for key in list(self.waiting):
            self._send(key, len(self.ops))
        return self.made if self.joins else self.ops

    def _take(self, op: SpmdOp, place: int) -> None:
        """An op that may wait, or that may need what is waiting."""
        reads = reads_of(op) if isinstance(op, Control) else op.operands
        lacks = [value for value in dict.fromkeys(reads) if value in self.needs]
        needs = {group for v in lacks for group in self.needs[v]} & self.groups.keys()
        if lacks and _waits(op):
            self._put_behind(op, place, lacks, frozenset(needs))
            return
        for key in sorted([self.groups[group] for group in needs], key=str):
            self._send(key, place)
        if self.early.isdisjoint(op.results):  # else it was sent with these
            self._meet(op, place)

    def _put_behind(
        self, op: SpmdOp, place: int, lacks: Sequence[int], needs: frozenset[int]
    ) -> None:
        self.lacks[place] = len(lacks)
        for value in lacks:
            self.readers.setdefault(value, []).append(place)
        for value in op.results:
            self.needs[value] = needs

    def _add(self, op: SpmdOp) -> None:
        self.made.append(op)
        for value in op.results:
            if value in self.movers:
                for place in self.movers.pop(value):
                    insort(self.ready[self.keys[place]], place)
            if value in self.needs:
                del self.needs[value]
                self._arrive(value)

    def _arrive(self, value: int) -> None:
        """Something is there that others waited for."""
        for place in self.readers.pop(value, ()):
            self.lacks[place] -= 1
            if not self.lacks[place]:
                heappush(self.free, place)

    def _meet(self, op: SpmdOp, place: int) -> None:
        """Let an op wait for others of its kind, if it is one that does."""
        key = self.keys.get(place)
        if key is None or not isinstance(op, Collective):
            self._add(op)
            return
        size = _bytes(self.types, op)
        if self._is_much(key, self.sizes.get(key, 0) + size):
            self._send(key, place)
        group = self.waiting.setdefault(key, [])
        group.append(op)
        self.sizes[key] = self.sizes.get(key, 0) + size
        self.groups[group[0].result] = key
        self.needs[op.result] = frozenset({group[0].result})

    def _is_much(self, key: Key, size: int) -> bool:
        if size <= LITTLE:
            return False
        limit = _limit(self.sweep)
        if limit > LITTLE and self.totals[key] <= limit + limit // _REST:
            limit = self.totals[key]
        return size > limit

    def _send(self, key: Key, place: int) -> None:
        """Do what is waiting, then what waited for that and for nothing else."""
        group = self.waiting.pop(key, [])
        if not group:
            return
        del self.groups[group[0].result]
        after = next((op.after for op in group if op.after >= 0), -1)
        group += self._next(key, group, place)
        joint = group[0].result if len(group) > 1 else -1
        self.joins = self.joins or joint >= 0
        for one in group:
            self._add(one._replace(joint=joint, after=after))
        while self.free:
            self._add(self.ops[heappop(self.free)])

    def _next(
        self, key: Key, group: Sequence[Collective], place: int
    ) -> list[Collective]:
        """Those further down of what is there, until something comes again."""
        size, seen = self.sizes.pop(key), {op.operand for op in group}
        found: list[Collective] = []
        ready = self.ready[key]
        del ready[: bisect_left(ready, place)]
        for number in ready:
            op = self.ops[number]
            assert isinstance(op, Collective)
            size += _bytes(self.types, op)
            if op.operand in seen or self._is_much(key, size):
                break
            seen.add(op.operand)
            self.early.add(op.result)
            found.append(op)
        del ready[: len(found)]
        return found


def _waits(op: SpmdOp) -> bool:
    """Whether an op may come later: those that read and write much keep their order."""
    if not isinstance(op, Compute):
        return False
    known: bool | None = op.nest.cache.get("may wait")
    if known is None:
        known = role_of(op.nest) not in (Role.OPAQUE, Role.UPDATE)
        op.nest.cache["may wait"] = known
    return known
