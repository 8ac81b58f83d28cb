"""All-reduces of one group that don't wait for each other, combined as XLA does."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import NamedTuple

from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.simulate.kernels.repetition_spans import taking_turns
from partir.spmd.program import Collective

MOST_COMBINED = 256  # operands of one combined all-reduce, as in XLA


class _Member(NamedTuple):
    """An all-reduce: its place, the groups that it waits for, and its bytes.

    `repetitions` is how many it has, `turns` whether they wait for each other.
    """

    place: int
    waits: int
    bytes: float
    repetitions: int
    turns: bool


@dataclass(slots=True)
class _Group:
    """All-reduces to be combined: places, bytes so far, and what they wait for.

    Groups are bits of an integer. ``waits`` has all groups that this one waits for, by
    way of others too.
    """

    bit: int
    members: list[_Member] = field(default_factory=list)
    waits: int = 0
    bytes: float = 0.0
    turns: bool = False

    def takes(self, one: _Member, most_bytes: float) -> bool:
        """Whether there is room; those that take turns join others that do so too."""
        if one.waits & self.bit or len(self.members) >= MOST_COMBINED:
            return False
        if (one.turns or self.turns) and one.repetitions != self.members[0].repetitions:
            return False
        return self.bytes + one.bytes <= most_bytes

    def add(self, one: _Member) -> None:
        """One more."""
        self.members.append(one)
        self.bytes += one.bytes
        self.turns = self.turns or one.turns


def combine(block: Kernels, most_bytes: float) -> Kernels:
    """One kernel for all-reduces of one group that don't wait for each other.

    All repetitions of one are combined with others unless they wait for each other.
    """
    groups = _groups(block, most_bytes, taking_turns(block))
    joined = {
        group.members[-1].place: [one.place for one in group.members]
        for group in groups
        if len(group.members) > 1
    }
    if not joined:
        return block
    gone = {place for places in joined.values() for place in places}
    combined: list[Kernel] = []
    for number, kernel in enumerate(block.kernels):
        if number in joined:
            parts = [block.kernels[place] for place in joined[number]]
            combined.append(_joined(kernel, parts))
        elif number not in gone:
            combined.append(kernel)
    return replace(block, kernels=_in_order(combined))


def _groups(block: Kernels, most_bytes: float, turns: Set[int]) -> list[_Group]:
    kernels, counts = block.kernels, block.counts or [1] * len(block.kernels)
    before = [0] * len(kernels)  # the groups that a kernel waits for
    maker: dict[int, int] = {}
    groups: list[_Group] = []
    alike: dict[object, list[_Group]] = {}
    for number, kernel in enumerate(kernels):
        waits = 0
        for value in kernel.reads:
            if value in maker:
                waits |= before[maker[value]]
        op = kernel.op
        if isinstance(op, Collective) and op.kind == "all_reduce":
            waits = _closed(waits, groups)
            groups_so_far = alike.setdefault((op.axes, op.monoid), [])
            size, count = kernel.moved_bytes, counts[number]
            one = _Member(number, waits, size, count, number in turns)
            fitting = (
                group
                for group in reversed(groups_so_far)
                if group.takes(one, most_bytes)
            )
            group = next(fitting, None)
            if group is None:
                group = _Group(bit=1 << len(groups))
                groups.append(group)
                groups_so_far.append(group)
            group.add(one)
            _wait(group, waits, groups)
            waits |= group.bit
        before[number] = waits
        for value in kernel.writes:
            maker[value] = number
    return groups


def _closed(waits: int, groups: list[_Group]) -> int:
    """These groups and all that they wait for: a group starts with its last member."""
    rest = waits
    while rest:
        bit = rest & -rest
        rest ^= bit
        waits |= groups[bit.bit_length() - 1].waits
    return waits


def _wait(group: _Group, waits: int, groups: list[_Group]) -> None:
    """Let a group, and with it all that wait for it, wait for these groups too."""
    if not waits & ~group.waits:
        return
    group.waits |= waits
    for other in groups:
        if other.waits & group.bit:
            other.waits |= waits


def _joined(last: Kernel, parts: list[Kernel]) -> Kernel:
    return last._replace(
        reads=tuple(dict.fromkeys(v for part in parts for v in part.reads)),
        writes=tuple(v for part in parts for v in part.writes),
        flops=sum(part.flops for part in parts),
        moved_bytes=sum(part.moved_bytes for part in parts),
        made_bytes=sum(part.made_bytes for part in parts),
        members=tuple(m for part in parts for m in part.members),
    )


def _in_order(kernels: list[Kernel]) -> list[Kernel]:
    """Kernels as they stand, but for those that would read what is not there yet.

    These come as soon as it is.
    """
    maker = {v: n for n, kernel in enumerate(kernels) for v in kernel.writes}
    waiting: dict[int, set[int]] = {}  # what kernels that stand too early wait for
    readers: dict[int, list[int]] = {}
    ordered: list[Kernel] = []
    for number, kernel in enumerate(kernels):
        missing = {
            maker[v]
            for v in kernel.reads
            if v in maker and (maker[v] > number or maker[v] in waiting)
        }
        if missing:
            waiting[number] = missing
            for one in missing:
                readers.setdefault(one, []).append(number)
            continue
        ready = [number]
        while ready:
            done = heappop(ready)
            ordered.append(kernels[done])
            for reader in readers.pop(done, ()):
                waiting[reader].discard(done)
                if not waiting[reader]:
                    del waiting[reader]
                    heappush(ready, reader)
    return ordered
