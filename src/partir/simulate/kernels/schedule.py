"""The order in which a compiler schedules kernels, and what it combines before.

XLA combines all-reduces of one group that don't wait for each other. On CPUs it then
runs every kernel as soon as what it reads is there, first come, first served; of the
kernels that one makes ready, the last in program order goes first. Gathers that are
repeated wait for what they are needed with. Other back ends watch memory more closely,
so that this order is on the safe side.
"""

from __future__ import annotations

from collections import deque

from partir.simulate.device.spec import DeviceSpec
from partir.simulate.kernels.combining import combine
from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.simulate.kernels.operand_copies import with_copies


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
