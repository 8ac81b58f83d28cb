"""The order in which a compiler schedules kernels, and what it combines before.

XLA combines all-reduces of one group that don't wait for each other. On CPUs it then
runs every kernel as soon as what it reads is there, first come, first served; of the
kernels that one makes ready, the last in program order goes first. Gathers that are
repeated wait for what they are needed with. Other back ends watch memory more closely,
so that this order is on the safe side.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from partir.simulate.devices import DeviceSpec
from partir.simulate.fusion import Role, copied_bytes
from partir.simulate.kernels import Kernel, Kernels
from partir.spmd.program import Collective, Compute

_COPYING = (Role.CHEAP, Role.COSTLY, Role.VIEW)
MOST_COMBINED = 256  # operands of one combined all-reduce, as in XLA


def scheduled(block: Kernels, device: DeviceSpec, in_order: bool = False) -> Kernels:
    """The kernels in the device's order, all-reduces combined, operands copied.

    With `in_order` they stay in that of the program whatever the device does.
    """
    if device.copies_operands:
        block = with_copies(block)
    if device.combine_bytes:
        block = combine(block, device.combine_bytes)
    if in_order or device.order == "program":
        return block
    return breadth_first(block)


def with_copies(block: Kernels) -> Kernels:
    """Matrix products that copy operands first, and the time for that."""
    fused = {v for k in block.kernels if k.role in _COPYING for v in k.writes}
    readers = Counter(v for kernel in block.kernels for v in kernel.reads)
    made = []
    for kernel in block.kernels:
        op = kernel.op
        sizes = copied_bytes(op.nest) if isinstance(op, Compute) else ()
        # What only this product reads is written as it wants it.
        found = {
            value: size
            for value, size in zip(kernel.reads, sizes, strict=False)
            if size and not (value in fused and readers[value] == 1)
        }
        if found:
            moved = kernel.moved_bytes + 2 * sum(found.values())
            kernel = kernel._replace(copied=tuple(found), moved_bytes=moved)
        made.append(kernel)
    return Kernels(block.arguments, made, block.results)


# Combining


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


# Breadth first


def breadth_first(block: Kernels) -> Kernels:
    """Every kernel as soon as what it reads is there."""
    kernels = block.kernels
    maker = {v: n for n, kernel in enumerate(kernels) for v in kernel.writes}
    readers: list[list[int]] = [[] for _ in kernels]
    waiting = [0] * len(kernels)
    by_argument: dict[int, list[int]] = {}
    for number, kernel in enumerate(kernels):
        makers = {maker[v] for v in kernel.reads if v in maker}
        waiting[number] = len(makers)
        for one in makers:
            readers[one].append(number)
        if not makers:
            first = kernel.reads[0] if kernel.reads else -1
            by_argument.setdefault(first, []).append(number)
    ready = deque(_ready(block, by_argument))
    made: list[Kernel] = []
    while ready:
        number = ready.popleft()
        made.append(kernels[number])
        for reader in reversed(readers[number]):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return Kernels(block.arguments, made, block.results)


def _ready(block: Kernels, by_argument: dict[int, list[int]]) -> list[int]:
    """Kernels that wait for nothing, in the order of the arguments that they read."""
    ready = by_argument.pop(-1, [])
    for argument in block.arguments:
        ready += by_argument.pop(argument, [])
    for rest in by_argument.values():  # values from outside a loop's body
        ready += rest
    return ready
