"""Sums that free memory come before the next product that takes it.

A loss reads logits that nothing else needs any more, but nothing needs the loss soon.
A compiler may leave it for later, and the logits are then in memory beside their
gradient, and beside what the first products of the backward pass take. So the next
product waits for such a sum, if that frees more than the product takes, and needs
nothing but what the product needs too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from partir.rules.identities import WAITING, cites
from partir.rules.traits import Role, role_of
from partir.spmd.preparations.waits import (
    Wait,
    first_reached,
    is_loop,
    is_product,
)
from partir.spmd.program import Block, Compute, SpmdOp, SpmdProgram, is_barrier
from partir.spmd.rewrites.sweep import reads_by_op, reads_of

_FUSED = (Role.CHEAP, Role.COSTLY, Role.VIEW)
_MOST_SOURCES = 8  # what is made of more values is taken to be in memory itself


@cites(WAITING)
def sum_order(program: SpmdProgram, in_loops: bool = True) -> dict[int, Wait]:
    """What waits for sums in every block, by the first result of the op that does.

    The exported text has a barrier for each:
        %l = reduce %logits ; %dw = dot %dlogits %x
        ->
        %l = reduce %logits ; %1 = %x after %l ; %dw = dot %dlogits %1
    """
    return {
        value: wait
        for block in program.blocks[: None if in_loops else 1]
        for value, wait in _Order(program, block).run()
    }


@dataclass(frozen=True, slots=True)
class _Sum:
    """A reduction, what it makes, and the values in memory that it reads."""

    place: int
    results: tuple[int, ...]
    sources: frozenset[int]


class _Order:
    """The sums of one block.

    What comes before what is asked last, and only of sums that free enough.
    """

    def __init__(self, program: SpmdProgram, block: Block) -> None:
        self.types, self.splats, self.ops = program.types, program.splats, block.ops
        self.block, self.reads = block, reads_by_op(block.ops)
        self.sources: dict[int, frozenset[int]] = {}  # of what is fused, by value
        self.products: set[int] = set()
        self.takes: dict[int, int] = {}  # bytes that products and loops make, by place

    def run(self) -> Iterator[tuple[int, Wait]]:
        """The first product or loop that a sum makes room for waits for it.

        One that is needed by another of these before is there already.
        """
        sums = self._sums()
        if not sums or not self.takes:
            return
        self.ends, self.stops = _ends(self.block), list(self.takes)
        self.reached = first_reached(self.ops, self.reads, self.takes)
        some = [one for one in sums if next(self._places(one), None) is not None]
        if not some:
            return
        needs, needed = self._needs(some)
        waited = defaultdict[int, list[int]](list)
        for one in some:
            need = needs[one.place]
            early = (n for n in self._places(one) if not need & ~needed[n])
            place = next(early, None)
            if place is not None:
                waited[place].append(one.results[0])
        for place in sorted(waited):
            position = self._smallest(self.ops[place])
            if position is not None:
                values = tuple(waited[place])
                yield self.ops[place].results[0], Wait(position, values)

    def _sums(self) -> list[_Sum]:
        """Those that read what products made."""
        found = []
        for place, op in enumerate(self.ops):
            if _is_fused(op):
                self._fuse(op)
            elif is_product(op) or is_loop(op):
                self.takes[place] = sum(self.types[v].bytes for v in op.results)
                self.products.update(op.results if is_product(op) else ())
            elif type(op) is Compute and role_of(op.nest) is Role.ROOT:
                sources = self._read(op)
                if not self.products.isdisjoint(sources):
                    found.append(_Sum(place, op.results, sources))
        return found

    def _places(self, one: _Sum) -> Iterator[int]:
        """Products and loops before one needs a sum, if they take less than it frees.

        It frees values that nothing else reads from there on, less what it makes.
        """
        made = sum(self.types[value].bytes for value in one.results)
        read = one.sources & self.products
        lasts = sorted((self._last(v, one), self.types[v].bytes) for v in read)
        freed = accumulate(size for _, size in lasts)
        some = [
            last for (last, _), size in zip(lasts, freed, strict=True) if size > made
        ]
        if not some:
            return
        end = min(self.reached.get(value, len(self.ops)) for value in one.results)
        first = bisect_right(self.stops, max(some[0], one.place))
        for place in islice(self.stops, first, bisect_left(self.stops, end)):
            free = sum(size for last, size in lasts if last < place) - made
            if free > self.takes[place]:
                yield place

    def _needs(self, sums: Sequence[_Sum]) -> tuple[dict[int, int], dict[int, int]]:
        """What sums need, and what products and loops do, as bits for ops.

        A value is forgotten when it is read for the last time.
        """
        born = {v: place for place, op in enumerate(self.ops) for v in op.results}
        needs = {one.place: {born[v] for v in one.sources if v in born} for one in sums}
        asked = sorted(set().union(*needs.values()))
        bits = {place: 1 << number for number, place in enumerate(asked)}
        last = {v: place for place, read in enumerate(self.reads) for v in read}
        above: dict[int, int] = {}
        needed: dict[int, int] = {}
        for place, read in enumerate(self.reads):
            found = 0
            for value in read:
                if value in above:
                    found |= above[value]
                    if last[value] == place:
                        del above[value]
            needed[place] = found
            found |= bits.get(place, 0)
            if found:
                above.update(dict.fromkeys(self.ops[place].results, found))
        return {n: sum(bits[at] for at in some) for n, some in needs.items()}, needed

    def _fuse(self, op: SpmdOp) -> None:
        if is_barrier(op):
            pairs = zip(op.results, op.operands, strict=True)
            self.sources.update((new, self._of(old)) for new, old in pairs)
            return
        found = self._read(op)
        if len(found) <= _MOST_SOURCES:
            self.sources.update(dict.fromkeys(op.results, found))

    def _read(self, op: SpmdOp) -> frozenset[int]:
        """The values in memory that an op is computed from."""
        return frozenset().union(*map(self._of, op.operands))

    def _of(self, value: int) -> frozenset[int]:
        return self.sources.get(value, frozenset((value,)))

    def _last(self, value: int, one: _Sum) -> float:
        """Where anything but this sum reads a value last."""
        return max((end for end in self.ends[value] if end != one.place), default=-1)

    def _smallest(self, op: SpmdOp) -> int | None:
        size = {
            position: self.types[value].bytes
            for position, value in enumerate(op.operands)
            if value not in self.splats and self.types[value].shape
        }
        return min(size, key=size.__getitem__, default=None)


def _ends(block: Block) -> dict[int, tuple[float, ...]]:
    """The last two places where each value is read, by what is in no other kernel.

    What is fused reads where its readers do. What a product reads is written to memory,
    just before the first of them.
    """
    known: dict[int, tuple[float, ...]] = {}
    first: dict[int, int] = {}  # products that read a value

    def add(value: int, ends: tuple[float, ...]) -> None:
        known[value] = tuple(sorted({*known.get(value, ()), *ends}))[-2:]

    for value in block.results:
        add(value, (len(block.ops),))
    for place, op in reversed(list(enumerate(block.ops))):
        if is_barrier(op):
            for made, value in zip(op.results, op.operands, strict=True):
                add(value, known.get(made, ()))
            continue
        ends: tuple[float, ...] = (place,)
        if _is_fused(op):
            ends = known.get(op.results[0], ())
            if op.results[0] in first:
                ends = (first[op.results[0]] - 0.5,)
        for value in reads_of(op):
            add(value, ends)
            if is_product(op):
                first[value] = place
    return known


def _is_fused(op: SpmdOp) -> bool:
    """Whether an op is part of what reads its result."""
    if not isinstance(op, Compute):
        return is_barrier(op)
    return len(op.results) == 1 and role_of(op.nest) in _FUSED
