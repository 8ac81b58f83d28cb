"""Which values of a block are equal: made by the same ops of equal values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from partir.rules.traits import Role, role_of
from partir.spmd.program import Cause, Collective, Compute, SpmdOp

_NOBODY = Cause(-1, None, None)


class Equals:
    """Of equal values, the one that was asked for first stands for all.

    Products and calls are not looked through: nobody writes those twice by chance.
    """

    def __init__(self, ops: Iterable[SpmdOp]) -> None:
        """Of a block; what others hand to it equals nothing else."""
        self._makers = {op.results[0]: op for op in ops if len(op.results) == 1}
        self._found: dict[int, int] = {}
        self._first: dict[Hashable, int] = {}

    def of(self, value: int) -> int:
        """The value that stands for this one and its equals."""
        found, waiting = self._found, [value]
        while waiting:
            now = waiting.pop()
            if now in found:
                continue
            op = self._makers.get(now)
            if op is None or not _is_plain(op):
                found[now] = now
                continue
            unknown = [v for v in op.operands if v not in found]
            if unknown:
                waiting += (now, *unknown)
            else:
                found[now] = self._first.setdefault(self._key(op), now)
        return found[value]

    def _key(self, op: SpmdOp) -> Hashable:
        operands = tuple([self._found[v] for v in op.operands])
        if isinstance(op, Compute):
            return op.nest, operands
        assert isinstance(op, Collective)
        return op._replace(operand=operands[0], result=-1, cause=_NOBODY)


def _is_plain(op: SpmdOp) -> bool:
    """Whether it makes the same of the same, and takes little."""
    if isinstance(op, Compute):
        return role_of(op.nest) != Role.OPAQUE
    return isinstance(op, Collective) and op.after < 0
