"""The order in which a compiler schedules kernels, and what it combines before.

XLA combines all-reduces of one group that don't wait for each other. On CPUs it then
runs every kernel as soon as what it reads is there, first come, first served; of the
kernels that one makes ready, the last in program order goes first. Gathers that are
repeated wait for what they are needed with. Where weights are larger than activations
it is told to mind memory (`depth_first.py`). Other back ends watch memory more closely,
so that this order is on the safe side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from partir.simulate.device.spec import DeviceSpec
from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.combining import combine
from partir.simulate.kernels.depth_first import depth_first, spans_in
from partir.simulate.kernels.kernel import Kernels, repetition_counts
from partir.simulate.kernels.late_products import late_products
from partir.simulate.kernels.repetition_spans import level_spans, program_spans
from partir.simulate.kernels.running_sums import running_terms
from partir.spmd.program import Collective

_TURNS_OF_A_BARRIER = 3  # the tuple that it takes, itself, and what is read of it


class Scheduler:
    """Puts the kernels of blocks into a device's order; each block once.

    All-reduces are combined before. `multiplicity` is what a folded program stands for,
    `depth_first` whether the compiler was told to mind memory.
    """

    def __init__(
        self,
        device: DeviceSpec,
        multiplicity: Multiplicity | None = None,
        depth_first: bool = False,
    ) -> None:
        self.device, self.multiplicity = device, multiplicity
        self.depth_first = depth_first
        self._known: dict[int, tuple[Kernels, Kernels]] = {}

    def __call__(self, block: Kernels) -> Kernels:
        """The block in order."""
        known = self._known.get(id(block))
        if known is None:
            known = self._known[id(block)] = block, self._scheduled(block)
        return known[1]

    def _scheduled(self, block: Kernels) -> Kernels:
        device, multiplicity = self.device, self.multiplicity
        if multiplicity is not None:
            block = replace(
                block, counts=repetition_counts(block.kernels, multiplicity)
            )
        if device.combine_bytes:
            block = combine(block, device.combine_bytes)
        if multiplicity is not None:
            return self._unfolded(block, multiplicity)
        if self.depth_first:
            return _placed(block, depth_first(block))
        if device.order == "late_products":
            return _placed(block, late_products(block))
        return block if device.order == "program" else breadth_first(block, device)

    def _unfolded(self, block: Kernels, multiplicity: Multiplicity) -> Kernels:
        """First repetitions in the order that they have in the whole."""
        kernels, device = block.kernels, self.device
        counts = repetition_counts(kernels, multiplicity)
        spans = program_spans(kernels, multiplicity)
        block = replace(block, counts=counts, spans=spans)
        if self.depth_first:
            block = _reordered(block, depth_first(block))
        elif device.order == "late_products":
            block = _reordered(block, late_products(block))
        elif device.order == "breadth_first":
            block = _by_level(block, device)
        return replace(block, terms=running_terms(block, device.fusion))


def _by_level(block: Kernels, device: DeviceSpec) -> Kernels:
    kernels, counts = block.kernels, block.counts
    spans = level_spans(block, _turns(block, device))
    order = _breadth_first(block, device)
    places = sorted(order, key=lambda place: spans[place][0])
    return replace(
        block,
        kernels=[kernels[place] for place in places],
        counts=[counts[place] for place in places],
        spans=[spans[place] for place in places],
    )


def _reordered(block: Kernels, order: Sequence[int]) -> Kernels:
    spans = spans_in(order, block.spans)
    counts = [block.counts[place] for place in order]
    return replace(_placed(block, order), counts=counts, spans=spans)


def _placed(block: Kernels, order: Sequence[int]) -> Kernels:
    return replace(block, kernels=[block.kernels[place] for place in order])


def breadth_first(block: Kernels, device: DeviceSpec) -> Kernels:
    """Every kernel as soon as what it reads is there."""
    return _placed(block, _breadth_first(block, device))


def _breadth_first(block: Kernels, device: DeviceSpec) -> list[int]:
    """Places of the kernels in that order."""
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
    turns = _turns(block, device)
    ready = deque(_ready(block, by_argument))
    places: list[int] = []
    while ready:
        number = ready.popleft()
        if turns.get(number):
            turns[number] -= 1
            ready.append(number)
            continue
        places.append(number)
        for reader in reversed(readers[number]):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return places


def _turns(block: Kernels, device: DeviceSpec) -> dict[int, int]:
    """How often a kernel lets others go first: a barrier takes its turns before it."""
    if not device.export.reads_through:
        return {}
    return {
        number: _TURNS_OF_A_BARRIER
        for number, kernel in enumerate(block.kernels)
        if kernel.waits or (isinstance(kernel.op, Collective) and kernel.op.after >= 0)
    }


def _ready(block: Kernels, by_argument: dict[int, list[int]]) -> list[int]:
    """Kernels that wait for nothing, in the order of the arguments that they read."""
    ready = by_argument.pop(-1, [])
    for argument in block.arguments:
        ready += by_argument.pop(argument, [])
    for rest in by_argument.values():  # values from outside a loop's body
        ready += rest
    return ready
