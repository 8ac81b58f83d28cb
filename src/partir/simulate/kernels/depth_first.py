"""Kernels from their results: each when the first that needs it is next.

This is the order of XLA on CPUs where it minds memory. From the results back it goes to
what each is made of, first to what has the most readers, then to the largest, each with
all that it is made of in turn; a kernel comes when all of these are there. What several
kernels are made of counts for each of them, up to a limit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from partir.simulate.fold_multiplicity import Span
from partir.simulate.kernels.kernel import Kernel, Kernels


def depth_first(block: Kernels) -> list[int]:
    """Places of a block's kernels in that order."""
    kernels = block.kernels
    maker = {v: n for n, kernel in enumerate(kernels) for v in kernel.writes}
    made_of = [{maker[v] for v in k.reads if v in maker} for k in kernels]
    handed = [v for values in block.handed.values() for v in values]
    ends = {maker[v] for v in (*block.results, *handed) if v in maker}
    weight = _weights(kernels, made_of, ends, len(kernels) + len(block.arguments))

    def first_last(places: set[int]) -> list[int]:
        return sorted(places, key=weight.__getitem__)

    order: dict[int, None] = {}
    rest = set(range(len(kernels))).difference(ends)  # what nobody reads comes last
    stack = [*sorted(rest, reverse=True), *first_last(ends)]
    opened = set[int]()
    while stack:
        place = stack[-1]
        if place in opened:
            order.setdefault(stack.pop())
            continue
        opened.add(place)
        stack += first_last(made_of[place].difference(opened))
    return list(order)


def _weights(
    kernels: Sequence[Kernel],
    made_of: Sequence[set[int]],
    ends: set[int],
    most: int,
) -> list[tuple[int, float, int]]:
    """Readers but one of a kernel and of all that it is made of, and their bytes."""
    readers = [-1 + (place in ends) for place in range(len(kernels))]
    for places in made_of:
        for place in places:
            readers[place] += 1
    weights: list[tuple[int, float, int]] = []
    so_far = accumulate(kernel.made_bytes for kernel in kernels)
    for place, (kernel, known) in enumerate(zip(kernels, so_far, strict=True)):
        below = [weights[other] for other in made_of[place]]
        extra = max(readers[place], 0) + sum(one[0] for one in below)
        size = kernel.made_bytes + sum(one[1] for one in below)
        weights.append((min(extra, most), min(size, known), -place))
    return weights


def spans_in(order: Sequence[int], spans: Sequence[Span]) -> list[Span]:
    """Spans of kernels in an order other than the program's.

    Kernels of which most stand as in the program stay where they are in the whole; the
    rest are where those are that they come behind.
    """
    firsts = [spans[place][0] for place in order]
    kept = _longest_rise(firsts)
    found: list[Span] = []
    now = spans[order[min(kept)]] if kept else (0.0, 0.0)
    for number, place in enumerate(order):
        now = spans[place] if number in kept else now
        found.append(now)
    return found


def _longest_rise(values: Sequence[float]) -> set[int]:
    """Places of as many values as possible of which none is less than one before."""
    ends: list[float] = []
    places: list[int] = []
    before: list[int] = []
    for number, value in enumerate(values):
        length = bisect_right(ends, value)
        before.append(places[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        places[length : length + 1] = [number]
    kept = set[int]()
    number = places[-1] if places else -1
    while number >= 0:
        kept.add(number)
        number = before[number]
    return kept
