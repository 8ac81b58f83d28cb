"""What things that run at once take from each other: kernels and collectives.

What lies between two products is moved for one of them, part by part with it. What is
stored (weights that are gathered, gradients that are summed) is moved beside other work
and takes some of the device from it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from partir.ir.types import TensorType
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.kernels.kernel import Kernels, is_barrier
from partir.simulate.streams import moved_for_nobody


class Beside(NamedTuple):
    """Seconds of all kernels, all collectives, and those of stored values."""

    computed: float
    moved: float
    stored: float


def beside_of(
    block: Kernels, durations: Sequence[float], stored: Collection[int]
) -> Beside | None:
    """What a block has running at once, if that takes something from anything."""
    if not stored:
        return None
    counts = block.counts or [1] * len(durations)
    times = [d * n for d, n in zip(durations, counts, strict=True)]
    moved = sum(t for k, t in zip(block.kernels, times, strict=True) if k.members)
    return Beside(sum(times) - moved, moved, sum(times[number] for number in stored))


def slowed(seconds: float, beside: Beside | None, device: DeviceSpec) -> float:
    """Time with what collectives take from kernels beside them."""
    if beside is None:
        return seconds
    exposed = max(seconds - beside.computed, 0.0)
    hidden = max(beside.moved - exposed, 0.0)
    return seconds + device.overlap_cost * min(beside.stored, hidden)


def stored_moves(
    block: Kernels, types: Sequence[TensorType], repeated: bool
) -> set[int]:
    """Kernels of a block that move what no product made, or what no product reads.

    What a loop (`repeated`) carries to its next iteration counts as made by products.
    """
    made = {v for v in block.arguments if repeated and types[v].shape}
    found = set()
    for number, kernel in enumerate(block.kernels):
        if is_barrier(kernel):
            pairs = zip(kernel.op.operands, kernel.op.results, strict=True)
            made.update(result for value, result in pairs if value in made)
        elif kernel.matmul or kernel.inner or not made.isdisjoint(kernel.reads):
            made.update(kernel.writes)
        elif kernel.members:
            found.add(number)
    return found | moved_for_nobody(block)
