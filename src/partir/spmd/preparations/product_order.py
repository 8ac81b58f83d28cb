"""Products that free memory come before the next one that takes it.

A weight's gradient frees the activations that it is made of, but nothing needs it soon.
Compilers that mind time first keep such products for later, to run while something is
sent, or behind the whole backward pass: the activations of several layers are then in
memory at once. So the next product with a weight waits for it, if it is not one whose
result is sent: what is sent then still has something to run beside it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from partir.rules.identities import WAITING, cites
from partir.rules.traits import Role, role_of
from partir.spmd.export_policy import ExportPolicy
from partir.spmd.preparations.sum_order import sum_order
from partir.spmd.preparations.waits import (
    Wait,
    first_reached,
    is_loop,
    products_in,
)
from partir.spmd.preparations.weight_sizes import gathers_most
from partir.spmd.program import (
    Block,
    Collective,
    Compute,
    Control,
    SpmdOp,
    SpmdProgram,
    is_barrier,
    is_written,
)
from partir.spmd.rewrites.sweep import reads_by_op

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
        for block in program.blocks[: None if in_loops else 1]
        for value, wait in _Order(program, block, summed, gathered).run()
    }


def _handed_on(program: SpmdProgram, ops: Sequence[Control]) -> dict[int, int]:
    """What barriers of ours hand on, as it came."""
    same: dict[int, int] = {}
    for op in ops:
        if is_barrier(op) and not is_written(program, op):
            for made, value in zip(op.results, op.operands, strict=True):
                same[made] = same.get(value, value)
    return same


class _Order:
    """The products of one block.

    What an op is, is asked once of each; the rest is asked of products and loops.
    """

    def __init__(
        self, program: SpmdProgram, block: Block, summed: bool, gathered: bool
    ) -> None:
        self.summed, self.gathered = summed, gathered
        self.types, self.splats, self.ops = program.types, program.splats, block.ops
        self.products, self.results = products_in(block), block.results
        self.others = [
            (place, op) for place, op in enumerate(block.ops) if type(op) is Control
        ]
        self.same = _handed_on(program, [op for _, op in self.others])
        self.readers: defaultdict[int, list[SpmdOp]] = defaultdict(list)
        self.activations: set[int] = set()  # values made of products
        self.moved: set[int] = set()  # values that came from other devices

    def run(self) -> Iterator[tuple[int, Wait]]:
        """The first op that takes memory, where a product frees some, waits for it.

        One that is needed by what takes memory before is there already.
        """
        if not self.products:
            return
        self.reads = reads_by_op(self.ops)
        self._look()
        takers = self._takers()
        places, waited = list(takers), defaultdict[int, list[Compute]](list)
        reached = first_reached(self.ops, self.reads, takers.keys())
        for place, product in self.products.items():
            if not (self.summed or self._is_sent(product, "reduce_scatter")):
                continue
            freed = self._frees_from(product)
            number = bisect_left(places, max(freed, place + 1))
            if number == len(places):
                continue
            if reached.get(product.results[0], len(self.ops)) > places[number]:
                waited[places[number]].append(product)
        for place in sorted(waited):
            values = tuple(self._known(product, place) for product in waited[place])
            yield self.ops[place].results[0], Wait(takers[place], values)

    def _look(self) -> None:
        """Where values are made and read last, and which are made of products."""
        self.born = {v: place for place, op in enumerate(self.ops) for v in op.results}
        self.last = {v: place for place, read in enumerate(self.reads) for v in read}
        self.last.update(dict.fromkeys(self.results, len(self.ops)))
        for made, value in self.same.items():
            lasts = self.last.get(made, -1), self.last.get(value, -1)
            self.last[value] = max(lasts)
        self.followed: set[int] = set()  # what products became on their way
        activations, followed = self.activations, self.followed
        for place, op in enumerate(self.ops):
            read = self.reads[place]
            if not followed.isdisjoint(read):
                self._follow(op, read)
            if place in self.products:
                activations.update(op.results)
                followed.update(op.results)
            elif type(op) is not Compute:
                self._record(op, read)
            elif not activations.isdisjoint(read):
                activations.update(op.results)

    def _follow(self, op: SpmdOp, read: Sequence[int]) -> None:
        for value in read:
            if value in self.followed:
                self.readers[value].append(op)
        if type(op) is not Compute or not len(read) == len(op.results) == 1:
            return
        if role_of(op.nest) in _LIGHT:
            self.followed.update(op.results)

    def _record(self, op: SpmdOp, read: Sequence[int]) -> None:
        if not self.same.keys().isdisjoint(op.results):
            for known in (self.activations, self.moved):
                known.update(v for v in op.results if self.same[v] in known)
            return
        if isinstance(op, Collective):
            self.moved.add(op.result)
            read = (op.operand,)
        if not self.activations.isdisjoint(read):
            self.activations.update(op.results)

    def _takers(self) -> dict[int, int]:
        """Ops that take memory, by place, and which of their operands can wait."""
        taking: dict[int, SpmdOp] = {
            place: op for place, op in self.others if is_loop(op)
        }
        for place, op in self.products.items():
            if self._takes(op, place):
                taking[place] = op
        weights = {place: self._weight(op) for place, op in sorted(taking.items())}
        return {place: at for place, at in weights.items() if at is not None}

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

    def _takes(self, product: Compute, place: int) -> bool:
        """Whether a product is not sent and frees less than it makes."""
        return not self._is_sent(product) and self._frees_from(product) > place + 1

    def _frees_from(self, product: Compute) -> int:
        """From where on more than it makes is not read any more of what it reads."""
        free = -self.types[product.results[0]].bytes
        read = [self.same.get(value, value) for value in product.operands]
        for value in sorted(
            (v for v in read if v in self.born), key=self.last.__getitem__
        ):
            free += self.types[value].bytes
            if free > 0:
                return self.last[value] + 1
        return len(self.ops) + 1

    def _is_sent(self, op: Compute, kind: str = "") -> bool:
        """Whether a product's result goes to other devices, by this kind of op."""
        return any(
            isinstance(reader, Collective) and kind in ("", reader.kind)
            for reader in self.readers[self._made(op)]
        )

    def _known(self, product: Compute, place: int) -> int:
        """A product's result as it is sent, if that is made by now; else itself."""
        value = self._made(product)
        return value if self.born[value] < place else product.results[0]

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
