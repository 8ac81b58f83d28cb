"""Sums that outlive what they are made of.

XLA on CPUs adds up again, in each kernel that reads it, what takes little time to add
up. What goes from layer to layer of a model is such a sum: of what came in and of what
a layer made of it. It is in memory for the way back, and so are its parts if a kernel
there starts from them; and as each layer's sum is a part of the next, every kernel is
another one. Behind a barrier a sum is made once, and its parts are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partir.rules.identities import WAITING, cites
from partir.rules.linear import linear
from partir.rules.nest import Nest
from partir.rules.traits import Role, repeats, role_of
from partir.spmd.program import Compute, Control, SpmdOp
from partir.spmd.rewrites.sweep import Sweep, reading, reads_by_op

_BOTH = frozenset({0, 1})
_MANY = 64  # parts: no kernel reads more


@cites(WAITING)
def keep_sums(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Hand on a sum that is read more than once where one of its parts is not.

    rewrite:
        %2 = add %0 %1 ; f %2 ; g %2
        ->
        %2 = add %0 %1 ; %3 = barrier %2 ; f %3 ; g %3
    """
    if sweep.block is not sweep.program.body:
        return ops
    return _Sums(sweep, ops).run()


class _Sums:
    """The sums of the body, and the parts that they are of: values in memory.

    Only what sums are made of is looked at.
    """

    def __init__(self, sweep: Sweep, ops: Sequence[SpmdOp]) -> None:
        self.sweep, self.ops = sweep, ops
        reads = list(enumerate(reads_by_op(ops)))
        self.last = {v: place for place, read in reads for v in read}
        self.first = {v: place for place, read in reversed(reads) for v in read}
        self.lasting = {*sweep.block.arguments, *sweep.block.results}
        self.parts: dict[int, frozenset[int]] = {}

    def run(self) -> Sequence[SpmdOp]:
        sums = {
            place: op
            for place, op in self.sweep.block.computing(_adds).items()
            if len(op.results) == 1 and self._is_read_again(op.results[0])
        }
        names: dict[int, int] = {}
        kept: dict[int, Control] = {}
        for place, op in self._fused(sums).items():
            self._record(op)
            if place in sums and self._is_kept(op, place):
                (value,) = op.results
                self.parts[value] = frozenset({value})
                names[value] = self.sweep.new(self.sweep.types[value])
                kept[place] = Control(op.node, (value,), (names[value],))
        return self._behind(kept, names) if kept else self.ops

    def _behind(
        self, kept: Mapping[int, Control], names: dict[int, int]
    ) -> list[SpmdOp]:
        """The ops, reading sums behind barriers."""
        made: list[SpmdOp] = []
        renamed = names.keys()
        for place, op in enumerate(self.ops):
            same = type(op) is Compute and renamed.isdisjoint(op.operands)
            made.append(op if same else reading(op, names))
            if place in kept:
                made.append(kept[place])
        return made

    def _is_read_again(self, value: int) -> bool:
        """Whether several ops read it."""
        return value in self.last and self.first[value] < self.last[value]

    def _fused(self, sums: Mapping[int, Compute]) -> dict[int, Compute]:
        """Sums, and what is computed in the kernels that read them, in order."""
        found, light = dict(sums), self.sweep.block.computing(_is_fused)
        wanted = {value for op in sums.values() for value in op.operands}
        for place in reversed(light):
            op = light[place]
            if not wanted.isdisjoint(op.results):
                found[place] = op
                wanted.update(op.operands)
        return dict(sorted(found.items()))

    def _record(self, op: Compute) -> None:
        """What is part of the kernel that reads it has the parts of its operands."""
        costly = role_of(op.nest) is Role.COSTLY
        if not _is_fused(op.nest) or (costly and self._is_read_again(op.results[0])):
            return
        known = [] if repeats(op.nest) else [self._parts(v) for v in op.operands]
        parts = frozenset().union(*known)
        if len(parts) <= _MANY:
            self.parts.update(dict.fromkeys(op.results, parts))

    def _parts(self, value: int) -> frozenset[int]:
        if value in self.sweep.splats:
            return frozenset()
        return self.parts.get(value, frozenset({value}))

    def _is_kept(self, op: Compute, place: int) -> bool:
        """Whether a part of a sum is read for the last time, and the sum again."""
        size = self.sweep.types[op.results[0]].bytes
        types = self.sweep.types
        parts = [v for v in self._parts(op.results[0]) if types[v].bytes >= size]
        return len(parts) > 1 and any(
            self.last[v] <= place for v in parts if v not in self.lasting
        )


def _adds(nest: Nest) -> bool:
    """Whether an op adds two values."""
    return len(nest.operand_types) == 2 and linear(nest.signature, _BOTH)


def _is_fused(nest: Nest) -> bool:
    """Whether a kernel computes it that reads it; what is costly if it is the only."""
    return role_of(nest) in (Role.CHEAP, Role.VIEW, Role.COSTLY)
