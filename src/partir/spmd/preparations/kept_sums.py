"""Sums that outlive what they are made of.

XLA on CPUs adds up again, in each kernel that reads it, what takes little time to add
up. What goes from layer to layer of a model is such a sum: of what came in and of what
a layer made of it. It is in memory for the way back, and so are its parts if a kernel
there starts from them; and as each layer's sum is a part of the next, every kernel is
another one. Behind a barrier a sum is made once, and its parts are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from partir.rules.identities import WAITING, cites
from partir.rules.linear import linear
from partir.rules.traits import Role, repeats, role_of
from partir.spmd.program import Compute, Control, SpmdOp
from partir.spmd.rewrites.sweep import Sweep, reading, reads_of

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
    """The body, and what of its values is in memory: the parts that others are of."""

    def __init__(self, sweep: Sweep, ops: Sequence[SpmdOp]) -> None:
        self.sweep, self.ops = sweep, ops
        self.last: dict[int, int] = dict.fromkeys(sweep.block.arguments, len(ops))
        self.reads: Counter[int] = Counter()
        for place, op in enumerate(ops):
            read = set(reads_of(op))
            self.last.update((v, place) for v in read if v not in sweep.splats)
            self.reads.update(read)
        for value in (*sweep.block.arguments, *sweep.block.results):
            self.last[value] = len(ops)
        self.parts: dict[int, frozenset[int]] = {}

    def run(self) -> Sequence[SpmdOp]:
        names: dict[int, int] = {}
        made: list[SpmdOp] = []
        for place, op in enumerate(self.ops):
            made.append(reading(op, names))
            self._record(op)
            if isinstance(op, Compute) and self._is_kept(op, place):
                (value,) = op.results
                self.parts[value] = frozenset({value})
                names[value] = self.sweep.new(self.sweep.types[value])
                made.append(Control(op.node, (value,), (names[value],)))
        return made if names else self.ops

    def _record(self, op: SpmdOp) -> None:
        role = role_of(op.nest) if isinstance(op, Compute) else Role.OPAQUE
        once = role is Role.COSTLY and self.reads[op.results[0]] == 1
        if role in (Role.CHEAP, Role.VIEW) or once:  # part of the kernel that reads it
            assert isinstance(op, Compute)
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
        if len(op.results) != 1 or self.reads[op.results[0]] < 2:
            return False
        if len(op.operands) != 2 or not linear(op.nest.signature, _BOTH):
            return False
        size = self.sweep.types[op.results[0]].bytes
        types = self.sweep.types
        parts = [v for v in self._parts(op.results[0]) if types[v].bytes >= size]
        return len(parts) > 1 and any(self.last[v] <= place for v in parts)
