"""What a product over rows puts in order is put in order when it is needed.

A weight's gradient is the product of what went in with what comes back, and one of the
two is put in order for it first. XLA on CPUs runs what it can as soon as it can: what
went in is put in order in the forward pass already and kept so, beside the original
wherever that is read again, and what comes back as often as it is read. Behind a
barrier for both of them there is one of each, and it is put in order there.

Where the compiler is told to mind memory it puts things in order late by itself, and
what is smaller than the gradient is not worth the wait. Nor does anything wait where
barriers that the author wrote are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partir.rules.identities import WAITING, cites
from partir.rules.nest import Nest
from partir.spmd.preparations.turned_products import puts_in_order
from partir.spmd.preparations.weight_sizes import gathers_most
from partir.spmd.program import Compute, Control, SpmdOp, SpmdProgram
from partir.spmd.rewrites.sweep import Sweep, reading


def has_late_operands(program: SpmdProgram) -> bool:
    """Whether anything is to be put in order late."""
    found = program.body.computing(_is_ordered)
    read = {value for op in found.values() for value in op.operands}
    arguments = set(program.body.arguments)
    return not read <= arguments and not gathers_most(program)


@cites(WAITING)
def put_in_order_late(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Let both operands of a product over rows be there before one is put in order.

    A loop's iteration needs all of its operands at once: nothing waits there.

    rewrite:
        %1 = dot_general %x %g over [0] [0]
        ->
        %2, %3 = barrier %x, %g ; %1 = dot_general %2 %3 over [0] [0]
    """
    if sweep.block is not sweep.program.body or not has_late_operands(sweep.program):
        return ops
    return _Late(sweep).run(ops)


class _Late:
    """The ops of the body, with barriers.

    Who reads a right operand later reads through: XLA on CPUs drops what nobody reads
    of a barrier. What else reads a left operand need not wait.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.arguments = set(sweep.block.arguments)
        self.lefts: dict[int, int] = {}  # operands as they are behind a barrier
        self.rights: dict[int, int] = {}

    def run(self, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
        made: list[SpmdOp] = []
        products = self.sweep.block.computing(_is_ordered)
        known = self.rights.keys()
        for place, op in enumerate(ops):
            if place in products:
                made += self._late(products[place])
            elif type(op) is Compute and known.isdisjoint(op.operands):
                made.append(op)
            else:
                made.append(reading(op, self.rights))
        return made if self.lefts else ops

    def _late(self, op: Compute) -> Iterator[SpmdOp]:
        if self._waits(*op.operands):
            yield self._barrier(op)
        left, right = op.operands
        first = self.lefts.get(left, self.rights.get(left, left))
        yield op._replace(operands=(first, self.rights.get(right, right)))

    def _waits(self, left: int, right: int) -> bool:
        known = left in self.lefts or left == right or right in self.arguments
        return not known and self.sweep.splats.keys().isdisjoint((left, right))

    def _barrier(self, op: Compute) -> Control:
        types, new = self.sweep.types, self.sweep.new
        operands = tuple(self.rights.get(value, value) for value in op.operands)
        results = tuple(new(types[value]) for value in op.operands)
        left, right = op.operands
        self.lefts[left], self.rights[right] = results
        return Control(op.node, operands, results)


def _is_ordered(nest: Nest) -> bool:
    """Whether it is a product that puts an operand in order, of more than it makes."""
    if not puts_in_order(nest):
        return False
    largest = max(type_.bytes for type_ in nest.operand_types)
    return largest > nest.result_types[0].bytes
