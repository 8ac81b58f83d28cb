"""All-reduces of one group that don't wait for each other, combined as XLA does."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.spmd.program import Collective

MOST_COMBINED = 256  # operands of one combined all-reduce, as in XLA


@dataclass(slots=True)
class _Group:
    """All-reduces to be combined: places, bytes so far, and what they wait for.

    Groups are bits of an integer. ``waits`` has all groups that this one waits for, by
    way of others too.
    """

    bit: int
    members: list[int] = field(default_factory=list)
    waits: int = 0
    bytes: float = 0.0


def combine(block: Kernels, most_bytes: float) -> Kernels:
    """One kernel for all-reduces of one group that don't wait for each other."""
    groups = _groups(block.kernels, most_bytes)
    joined = {g.members[-1]: g for g in groups if len(g.members) > 1}
    if not joined:
        return block
    gone = {n for group in joined.values() for n in group.members}
    made: list[Kernel] = []
    for number, kernel in enumerate(block.kernels):
        if number in joined:
            parts = [block.kernels[n] for n in joined[number].members]
            made.append(_joined(kernel, parts))
        elif number not in gone:
            made.append(kernel)
    return Kernels(block.arguments, _in_order(made), block.results)


def _groups(kernels: list[Kernel], most_bytes: float) -> list[_Group]:
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
            found = alike.setdefault((op.axes, op.monoid), [])
            group = _fitting(found, waits, kernel.moved_bytes, most_bytes)
            if group is None:
                group = _Group(bit=1 << len(groups))
                groups.append(group)
                found.append(group)
            group.members.append(number)
            group.bytes += kernel.moved_bytes
            _wait(group, waits, groups)
            waits |= group.bit
        before[number] = waits
        for value in kernel.writes:
            maker[value] = number
    return groups


def _fitting(
    groups: list[_Group], waits: int, size: float, most_bytes: float
) -> _Group | None:
    for group in reversed(groups):
        fits = group.bytes + size <= most_bytes and len(group.members) < MOST_COMBINED
        if fits and not waits & group.bit:
            return group
    return None


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
        members=tuple(m for part in parts for m in part.members),
    )


def _in_order(kernels: list[Kernel]) -> list[Kernel]:
    """Kernels as they stand, but for those that would read what is not there yet.

    These come as soon as it is.
    """
    maker = {v: n for n, kernel in enumerate(kernels) for v in kernel.writes}
    waiting: dict[int, set[int]] = {}  # what kernels that stand too early wait for
    readers: dict[int, list[int]] = {}
    made: list[Kernel] = []
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
            made.append(kernels[done])
            for reader in readers.pop(done, ()):
                waiting[reader].discard(done)
                if not waiting[reader]:
                    del waiting[reader]
                    heappush(ready, reader)
    return made
