"""Products as late as they can be: each before the first kernel that reads it.

XLA's scheduler for GPUs goes from the end to the start, and keeps what may run at any
time for when something is sent. A product that nothing waits for comes with its first
reader, and what it is made of is kept until then instead of its result. What is
gathered arrives while the product before runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.simulate.kernels.kernel import Kernel, Kernels, is_product
from partir.spmd.program import Collective


def late_products(block: Kernels) -> list[int]:
    """Places of a block's kernels in that order."""
    return _gathered_early(block.kernels, _late(block.kernels))


def _late(kernels: Sequence[Kernel]) -> list[int]:
    reader: dict[int, int] = {}
    for place in range(len(kernels) - 1, -1, -1):
        reader.update(dict.fromkeys(kernels[place].reads, place))
    moved: dict[int, list[int]] = {}
    stay: list[int] = []
    for place, kernel in enumerate(kernels):
        first = min((reader.get(v, place) for v in kernel.writes), default=place)
        if is_product(kernel) and first > place + 1:
            moved.setdefault(first, []).append(place)
        else:
            stay.append(place)
    order: list[int] = []

    def put(place: int) -> None:
        for before in moved.get(place, ()):
            put(before)
        order.append(place)

    for place in stay:
        put(place)
    return order


def _gathered_early(kernels: Sequence[Kernel], order: list[int]) -> list[int]:
    """Each gather before the product that it would come behind, if it may."""
    made: dict[int, int] = {}
    found: list[int] = []
    product = -1
    for place in order:
        kernel = kernels[place]
        gathers = isinstance(kernel.op, Collective) and kernel.op.kind == "all_gather"
        if gathers and all(made.get(v, -1) < product for v in kernel.reads):
            found.insert(product, place)
            for value, number in made.items():
                made[value] = number + (number >= product)
            made.update(dict.fromkeys(kernel.writes, product))
            product = -1  # one at a time
            continue
        if is_product(kernel):
            product = len(found)
        made.update(dict.fromkeys(kernel.writes, len(found)))
        found.append(place)
    return found
