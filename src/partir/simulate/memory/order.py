"""The order of kernels as it is for memory: what comes earlier than in the program.

Compilers for TPUs gather beside products, in parts, one gather after another, so that
what the next few products need is in memory already. What a gather is tied to does not
hold it: that compiler drops optimization barriers before it orders ops. What is
gathered of an argument moves with what is made of it on the way, as with numbers that
are narrowed. Parameters and state are updated as soon as their gradients are there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from partir.rules.traits import Role
from partir.simulate.fold_multiplicity import Span
from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.spmd.program import Collective

_LONGEST = 6  # kernels that move with one that they are read by

Turn = tuple[int, int]
"""The place that a kernel comes at, and whether before, at or behind it: -1, 0, 1."""


def ordered_for_memory(block: Kernels, ahead: int, updates_at_once: bool) -> Kernels:
    """The block with gathers so many products ahead of those that read them first.

    rewrite:
        product(x, w1); w2 = all_gather(v); product(y, w2)
    ->
        w2 = all_gather(v); product(x, w1); product(y, w2)

    With `updates_at_once`, arithmetic that makes nothing but results comes as soon as
    what it reads is there.
    """
    gathers = ahead > 0 and any(map(_gathers, block.kernels))
    if not gathers and not updates_at_once:
        return block
    order = _Order(block)
    if gathers:
        order.gather_ahead(ahead)
    if updates_at_once:
        order.update_at_once()
    return order.block_in_order()


class _Order:
    """Where kernels come."""

    def __init__(self, block: Kernels) -> None:
        handed: dict[int, int] = {}
        self.block, self.kernels = block, [_untied(k, handed) for k in block.kernels]
        self.maker = {v: n for n, k in enumerate(self.kernels) for v in k.writes}
        self.handed = set(block.handed)
        self.turns: list[Turn] = [(n, 0) for n in range(len(self.kernels))]

    def gather_ahead(self, products: int) -> None:
        """Move gathers so many products ahead of the first that reads them."""
        known = [n for n, kernel in enumerate(self.kernels) if kernel.matmul]
        for place, use in self._first_uses():
            before = bisect_left(known, use) - products
            target = known[max(before, 0)] if known else place
            if target < place:
                self._move(place, target, _is_on_the_way)

    def update_at_once(self) -> None:
        """Move what makes results alone behind the last of what it reads."""
        results = set(self.block.results)
        for place, kernel in enumerate(self.kernels):
            arithmetic = kernel.role in (Role.CHEAP, Role.COSTLY)
            if arithmetic and results.issuperset(kernel.writes):
                self._move(place, 0, _is_cheap)

    def block_in_order(self) -> Kernels:
        """All kernels, with what is known of each."""
        places = range(len(self.kernels))
        order = sorted(places, key=lambda n: (self.turns[n], n))
        block, spans = self.block, self._spans()
        return replace(
            block,
            kernels=[self.kernels[n] for n in order],
            counts=[block.counts[n] for n in order] if block.counts else (),
            spans=[spans[n] for n in order] if spans else (),
        )

    def _first_uses(self) -> Iterator[tuple[int, int]]:
        """Gathers with the first kernel that reads what they make."""
        uses: dict[int, int] = {}
        for place in range(len(self.kernels) - 1, -1, -1):
            uses.update(dict.fromkeys(self.kernels[place].reads, place))
        for place, kernel in enumerate(self.kernels):
            read = [uses[value] for value in kernel.writes if value in uses]
            if read and _gathers(kernel):
                yield place, min(read)

    def _move(
        self, place: int, target: int, moves: Callable[[Kernel], bool], steps: int = 0
    ) -> None:
        """To the target, what it is made of too if that moves; or right behind that."""
        turn = target, -1
        if self.handed.intersection(self.kernels[place].reads):
            return  # other repetitions get it from the one before
        for value in self.kernels[place].reads:
            maker = self.maker.get(value, place)
            if maker == place or self.turns[maker] < turn:
                continue
            here = self.turns[maker] == (maker, 0)
            if here and moves(self.kernels[maker]) and steps < _LONGEST:
                self._move(maker, target, moves, steps + 1)
            at, side = self.turns[maker]
            turn = max(turn, (at, side or 1))
        self.turns[place] = min(turn, self.turns[place])

    def _spans(self) -> Sequence[Span]:
        """Where repetitions stand in the whole.

        Behind those of another kernel, if there are as many; else behind the last of
        them. What is ahead of another kernel is as much earlier in each repetition.
        """
        spans, counts = list(self.block.spans), self.block.counts
        for place, (at, side) in enumerate(self.turns if spans else ()):
            (first, last), there = self.block.spans[place], self.block.spans[at]
            if side > 0 and counts[at] == counts[place]:
                spans[place] = there
            elif side > 0:
                end = max(there)
                spans[place] = end, end + 0.5 * (counts[place] > 1)
            elif at != place:
                early = max(first - there[0], 0.0)
                spans[place] = first - early, last - early
        return spans


def _gathers(kernel: Kernel) -> bool:
    return isinstance(kernel.op, Collective) and kernel.op.kind == "all_gather"


def _is_cheap(kernel: Kernel) -> bool:
    return kernel.role is Role.CHEAP and not kernel.matmul


def _is_on_the_way(kernel: Kernel) -> bool:
    """Between an argument and a gather of it."""
    moved = isinstance(kernel.op, Collective) and not kernel.matmul
    return moved or _is_cheap(kernel)


def _untied(kernel: Kernel, handed: dict[int, int]) -> Kernel:
    """A gather without what it waits for; `handed` is what barriers handed on so far.

    What it gathers is read as it was before that.
    """
    for value, source in kernel.handed_on:
        handed[value] = handed.get(source, source)
    if not _gathers(kernel):
        return kernel
    return kernel._replace(reads=(handed.get(kernel.reads[0], kernel.reads[0]),))
