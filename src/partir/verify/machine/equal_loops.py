"""Loops that are written twice: what equal ones leave is equal.

A gradient may have a loop of its own for what the model computes by one as well, and
whoever compiles the program may keep either of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from partir.ir.core import Op, Region
from partir.verify.equations.calls import has_effects
from partir.verify.layouts.layout import View
from partir.verify.machine.machine import Machine


def written(machine: Machine, op: Op, inits: Sequence[View]) -> Hashable:
    """All that a loop computes: what it starts from, and its regions' ops.

    Values of its own go by the order in which they are made, others by what they are.
    Equal loops are written alike; one that may do more than compute is like no other.
    """
    return _Form(machine).loop(op, inits)


class _Form:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._own: dict[int, int] = {}  # values that are made inside, numbered

    def loop(self, op: Op, inits: Sequence[View]) -> Hashable:
        return op.signature, tuple(inits), tuple(map(self._region, op.regions))

    def _region(self, region: Region) -> Hashable:
        self._make(region.arguments)
        ops = [self._op(self._machine.program.ops[index]) for index in region.ops]
        return len(region.arguments), *ops, tuple(map(self._value, region.results))

    def _op(self, op: Op) -> Hashable:
        only = op.results if has_effects(op.signature) else ()
        operands = tuple(map(self._value, op.operands))
        found = op.signature, operands, tuple(map(self._region, op.regions)), only
        self._make(op.results)
        return found

    def _make(self, values: Sequence[int]) -> None:
        for value in values:
            self._own[value] = len(self._own)

    def _value(self, value: int) -> Hashable:
        if value in self._own:
            return self._own[value]
        known = self._machine.env[value]
        return known if isinstance(known, View) else ("unknown", value)
