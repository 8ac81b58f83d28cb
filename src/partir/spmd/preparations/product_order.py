"""Products that free memory come before the next one that takes it.

A weight's gradient frees the activations that it is made of, but nothing needs it soon.
Compilers that mind time first keep such products for later, to run while something is
sent, or behind the whole backward pass: the activations of several layers are then in
memory at once. So the next product with a weight waits for it, if it is not one whose
result is sent: what is sent then still has something to run beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from partir.rules.identities import WAITING, cites
from partir.rules.traits import Role, role_of
from partir.spmd.export_policy import ExportPolicy
from partir.spmd.preparations.sum_order import sum_order
from partir.spmd.preparations.waits import Wait, blocks_of, is_loop, is_product
from partir.spmd.preparations.weight_sizes import gathers_most
from partir.spmd.program import (
    Block,
    Collective,
    Compute,
    SpmdOp,
    SpmdProgram,
    is_barrier,
    is_written,
)
from partir.spmd.rewrites.sweep import reads_of

_LIGHT = (Role.CHEAP, Role.VIEW)


def waits_of(program: SpmdProgram, policy: ExportPolicy) -> dict[int, Wait]:
    """What waits in a program that is written for a compiler."""
    if not policy.orders_products:
        return {}
    products = product_order(
        program,
        policy.orders_in_loops,
        policy.orders_summed,
        policy.orders_gathered,
    )
    if not policy.orders_sums or (policy.minds_memory and not gathers_most(program)):
        return products
    return _joined(products, sum_order(program, policy.orders_in_loops))


def _joined(products: dict[int, Wait], sums: dict[int, Wait]) -> dict[int, Wait]:
    """One wait for each op; its operand is the one that waits for products."""
    made = products | {v: wait for v, wait in sums.items() if v not in products}
    for value in products.keys() & sums.keys():
        wait = products[value]
        made[value] = Wait(wait.position, wait.values + sums[value].values)
    return made


@cites(WAITING)
def product_order(
    program: SpmdProgram,
    in_loops: bool = True,
    summed: bool = True,
    gathered: bool = True,
) -> dict[int, Wait]:
    """What waits in every block, by the first result of the op that does.

    Without `in_loops` nothing waits in loops and branches; without `summed` only for
    products of which devices keep a part; without `gathered` no weight waits that is
    gathered for the product.

    The exported text has a barrier for each:
        %dw = dot %h %dy ; %dh = dot %dy %w
        ->
        %dw = dot %h %dy ; %1 = %w after %dw ; %dh = dot %dy %1
    """
    return {
        value: wait
        for block in blocks_of(program, in_loops)
        for value, wait in _Order(program, block, summed, gathered).run()
    }


class _Order:
    """The products of one block."""

    def __init__(
        self, program: SpmdProgram, block: Block, summed: bool, gathered: bool
    ) -> None:
        self.summed, self.gathered = summed, gathered
        self.types, self.splats, self.ops = program.types, program.splats, block.ops
        self.last: dict[int, int] = {}
        self.readers: defaultdict[int, list[SpmdOp]] = defaultdict(list)
        self.same: dict[int, int] = {}  # what a barrier hands on, as it came
        for place, op in enumerate(block.ops):
            for value in reads_of(op):
                self.last[self.same.get(value, value)] = place
                self.readers[value].append(op)
            if is_barrier(op) and not is_written(program, op):
                for made, value in zip(op.results, op.operands, strict=True):
                    self.same[made] = self.same.get(value, value)
        for value in block.results:
            self.last[self.same.get(value, value)] = len(block.ops)
        self.above: dict[int, int] = {}  # products that come before a value, as bits
        self.activations: set[int] = set()  # values made of products
        self.moved: set[int] = set()  # values that came from other devices

    def run(self) -> Iterator[tuple[int, Wait]]:
        free: list[tuple[int, Compute]] = []  # products that nothing waits for yet
        count = 0
        for place, op in enumerate(self.ops):
            above = 0
            for value in reads_of(op):
                above |= self.above.get(value, 0)
            position = self._weight(op) if self._takes(op, place) else None
            if position is not None:
                free = [one for one in free if not above >> one[0] & 1]
                waited = [one for one in free if self._frees(one[1], place)]
                free = [one for one in free if one not in waited]
                if waited:
                    values = tuple(self._known(product) for _, product in waited)
                    yield op.results[0], Wait(position, values)
            if is_product(op):
                if self.summed or self._is_sent(op, "reduce_scatter"):
                    free.append((count, op))
                above |= 1 << count
                count += 1
            self._record(op, above)

    def _record(self, op: SpmdOp, above: int) -> None:
        self.above.update(dict.fromkeys(op.results, above))
        if not self.same.keys().isdisjoint(op.results):
            for known in (self.activations, self.moved):
                known.update(v for v in op.results if self.same[v] in known)
            return
        if isinstance(op, Collective):
            self.moved.add(op.result)
        read = {op.operand} if isinstance(op, Collective) else set(reads_of(op))
        if is_product(op) or not self.activations.isdisjoint(read):
            self.activations.update(op.results)

    def _weight(self, op: SpmdOp) -> int | None:
        """The smallest operand that is in memory, made of no product."""
        size = {
            position: self.types[value].bytes
            for position, value in enumerate(op.operands)
            if value not in self.splats
            and len(self.types[value].shape) > 1
            and (is_loop(op) or value not in self.activations)
            and (self.gathered or value not in self.moved)
        }
        return min(size, key=size.__getitem__, default=None)

    def _takes(self, op: SpmdOp, place: int) -> bool:
        """Whether it is a loop, or a product that is not sent and frees less."""
        if not is_product(op):
            return is_loop(op)
        return not self._is_sent(op) and not self._frees(op, place + 1)

    def _frees(self, product: Compute, place: int) -> bool:
        """Whether of what it reads more than it makes is not read from here on."""
        read = [self.same.get(value, value) for value in product.operands]
        gone = [v for v in read if self.last[v] < place and v in self.above]
        made = self.types[product.results[0]].bytes
        return sum(self.types[v].bytes for v in gone) > made

    def _is_sent(self, op: Compute, kind: str = "") -> bool:
        """Whether a product's result goes to other devices, by this kind of op."""
        return any(
            isinstance(reader, Collective) and kind in ("", reader.kind)
            for reader in self.readers[self._made(op)]
        )

    def _known(self, product: Compute) -> int:
        """A product's result as it is sent, if that is made by now; else itself."""
        value = self._made(product)
        return value if value in self.above else product.results[0]

    def _made(self, product: Compute) -> int:
        """A product's result as it is sent; else as it is made."""
        value = product.results[0]
        while len(self.readers[value]) == 1:
            (reader,) = self.readers[value]
            if isinstance(reader, Collective):
                return value
            if not isinstance(reader, Compute) or len(reader.operands) != 1:
                break
            if role_of(reader.nest) not in _LIGHT or len(reader.results) != 1:
                break
            value = reader.results[0]
        return product.results[0]
