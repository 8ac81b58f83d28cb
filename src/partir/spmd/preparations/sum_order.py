"""Sums that free memory come before the next product that takes it.

A loss reads logits that nothing else needs any more, but nothing needs the loss soon.
A compiler may leave it for later, and the logits are then in memory beside their
gradient, and beside what the first products of the backward pass take. So the next
product waits for such a sum, if that frees more than the product takes, and needs
nothing but what the product needs too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from partir.rules.identities import WAITING, cites
from partir.rules.traits import Role, role_of
from partir.spmd.preparations.waits import Wait, blocks_of, is_loop, is_product
from partir.spmd.program import Block, Compute, SpmdOp, SpmdProgram, is_barrier
from partir.spmd.rewrites.sweep import reads_of

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
        for block in blocks_of(program, in_loops)
        for value, wait in _Order(program, block).run()
    }


@dataclass(frozen=True, slots=True)
class _Sum:
    """A reduction that nothing waits for yet.

    `sources` are the values in memory that it reads, `above` what comes before it.
    """

    op: Compute
    place: int
    bit: int
    sources: frozenset[int]
    above: int


class _Order:
    """The sums of one block."""

    def __init__(self, program: SpmdProgram, block: Block) -> None:
        self.types, self.splats, self.ops = program.types, program.splats, block.ops
        self.ends = _ends(block)
        self.sources: dict[int, frozenset[int]] = {}  # of what is fused, by value
        self.above: dict[int, int] = {}  # kernels that come before a value, as bits
        self.products: set[int] = set()

    def run(self) -> Iterator[tuple[int, Wait]]:
        free: list[_Sum] = []
        count = 0
        for place, op in enumerate(self.ops):
            above = 0
            for value in reads_of(op):
                above |= self.above.get(value, 0)
            if is_product(op) or is_loop(op):
                free = [one for one in free if not above & one.bit]
                takes = sum(self.types[v].bytes for v in op.results)
                early = [one for one in free if not one.above & ~above]
                waited = [one for one in early if self._freed(one, place) > takes]
                free = [one for one in free if one not in waited]
                position = self._smallest(op)
                if waited and position is not None:
                    values = tuple(one.op.results[0] for one in waited)
                    yield op.results[0], Wait(position, values)
            if _is_fused(op):
                self._fuse(op)
            else:
                bit, count = 1 << count, count + 1
                if isinstance(op, Compute) and role_of(op.nest) is Role.ROOT:
                    free.append(_Sum(op, place, bit, self._read(op), above))
                above |= bit
            if is_product(op):
                self.products.update(op.results)
            self.above.update(dict.fromkeys(op.results, above))

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

    def _freed(self, one: _Sum, place: int) -> int:
        """Bytes that nothing reads from a place on but a sum, less what that makes."""
        gone = [v for v in one.sources & self.products if self._last(v, one) < place]
        made = sum(self.types[v].bytes for v in one.op.results)
        return sum(self.types[v].bytes for v in gone) - made

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
