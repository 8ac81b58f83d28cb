"""Flops as XLA's cost analysis counts them on CPUs: fusions compute things again.

An op that is fused into several kernels counts in each of them. XLA fuses further than
is good for a machine with fast memory: a product of matrices with more than two
dimensions reads its operand through a reshape, and each such reshape computes anew
what leads to it, back to the last product or reduction. That changes no time worth
modelling on an accelerator, so kernels (`fusion.py`) don't follow it; flops do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from partir.ir.types import TensorType
from partir.rules.traits import Role, joins_reduction
from partir.simulate.device.fusion_policy import XLA
from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.facts import Facts, facts_of
from partir.simulate.kernels.operand_layouts import operand_forms
from partir.spmd.program import Block, Collective, Compute, Control, SpmdOp, SpmdProgram
from partir.spmd.rewrites.sweep import reads_of

Types = Sequence[TensorType]
Times = Callable[[SpmdOp], int]

_FUSED = (Role.CHEAP, Role.COSTLY, Role.VIEW)
_SMALL = 4096  # elements: reductions of fewer are fused like other ops


def counted_flops(
    program: SpmdProgram, trip_count: int = 1, multiplicity: Multiplicity | None = None
) -> float:
    """Flops of one device; loops of unknown length run `trip_count` times.

    `multiplicity` is what a folded program stands for.
    """
    times = multiplicity.of if multiplicity else _once
    return _flops(program.types, program.body, trip_count, times)


def _once(op: SpmdOp) -> int:
    return 1


def _flops(types: Types, block: Block, trip_count: int, times: Times) -> float:
    copies = _Copies(types, block).count()
    flops = 0.0
    for number, op in enumerate(block.ops):
        fact = copies.facts[number]
        if fact is not None:
            flops += fact.work.flops * copies.times[number] * times(op)
        elif isinstance(op, Control):
            flops += _control(types, op, trip_count, times)
        elif isinstance(op, Collective) and op.kind == "all_reduce":
            flops += math.prod(types[op.result].shape) * times(op)
    return flops


def _control(types: Types, op: Control, trip_count: int, times: Times) -> float:
    inner = [_flops(types, block, trip_count, times) for block in op.blocks]
    if op.trips == 1:  # branches, or nothing at all
        return max(inner, default=0.0)
    return sum(inner) * (trip_count if op.trips is None else op.trips)


class _Copies:
    """In how many kernels each op of a block is computed."""

    def __init__(self, types: Types, block: Block) -> None:
        self.block, self.types = block, types
        self.facts: list[Facts | None] = [facts_of(op, XLA) for op in block.ops]
        self.makers = {v: n for n, op in enumerate(block.ops) for v in op.results}
        self.reads = Counter(v for op in block.ops for v in reads_of(op))
        self.reads.update(block.results)
        self.stored = set(block.results)  # values wanted in memory
        self.fusions: dict[int, set[object]] = {}  # kernels that compute a value inside
        self.joined: set[int] = set()  # ops that a reduction has taken in
        self.times = [1] * len(block.ops)

    def count(self) -> _Copies:
        """Go from last to first."""
        for number in range(len(self.block.ops) - 1, -1, -1):
            op, fact = self.block.ops[number], self.facts[number]
            if number in self.joined:
                continue
            if fact is not None and self._fuses(number):
                self._fuse(number, op, fact)
            elif fact is not None and fact.role is Role.ROOT:
                for value in op.operands:
                    self._join(value)
            else:
                self._read(op)
        return self

    def _read(self, op: SpmdOp) -> None:
        """What a kernel of its own reads: from memory, or through a reshape."""
        forms = operand_forms(op.nest) if isinstance(op, Compute) else None
        if forms is None:
            self.stored.update(reads_of(op))
            return
        for value, form in zip(op.operands, forms, strict=True):
            if form is None:
                self.stored.add(value)
            else:
                self.fusions.setdefault(value, set()).add((value, form))

    def _join(self, value: int) -> None:
        """A reduction takes in arithmetic that nobody else reads."""
        number = self.makers.get(value)
        fact = None if number is None else self.facts[number]
        if number is None or fact is None or self.reads[value] != 1:
            self.stored.add(value)
        elif fact.repeats:
            self.fusions.setdefault(value, set()).add(number)
        else:
            op = self.block.ops[number]
            if not isinstance(op, Compute) or not joins_reduction(op.nest):
                self.stored.add(value)
                return
            self.joined.add(number)
            for operand in op.operands:
                self._join(operand)

    def _fuse(self, number: int, op: SpmdOp, fact: Facts) -> None:
        value = op.results[0]
        fusions, stored = self.fusions.get(value, set()), value in self.stored
        if fact.role is Role.VIEW:
            own = stored and self._is_fused(op.operands[0])
            here = fusions | {number} if own else fusions
        elif self._is_computed_once(op, fact, stored):
            here = fusions if len(fusions) == 1 and not stored else {number}
        else:
            here = fusions | {number} if stored else fusions
        self.times[number] = len(here)
        for operand in op.operands:
            if fact.repeats and self._is_costly(operand, value):
                self.stored.add(operand)  # or it would be computed for every element
            else:
                self.fusions.setdefault(operand, set()).update(here)

    def _is_costly(self, operand: int, repeated: int) -> bool:
        number = self.makers.get(operand)
        fact = None if number is None else self.facts[number]
        costly = fact is not None and fact.role in (Role.COSTLY, Role.ROOT)
        return costly and self.types[operand].bytes < self.types[repeated].bytes

    def _is_computed_once(self, op: SpmdOp, fact: Facts, stored: bool) -> bool:
        """Costly ones are; so are those that would make every reader read more."""
        if fact.repeats:
            return False
        costly = fact.role in (Role.COSTLY, Role.ROOT)
        return costly or (stored and not self._reads_little(op))

    def _reads_little(self, op: SpmdOp) -> bool:
        result = self.types[op.results[0]]
        large = [v for v in op.operands if self._is_large(v, result)]
        total = sum(self.types[v].bytes for v in set(op.operands))
        return len(large) < 2 or total <= result.bytes

    def _is_large(self, value: int, result: TensorType) -> bool:
        number = self.makers.get(value)
        fact = None if number is None else self.facts[number]
        repeated = fact is not None and fact.repeats
        return len(self.types[value].shape) >= len(result.shape) and not repeated

    def _is_fused(self, value: int) -> bool:
        number = self.makers.get(value)
        return number is not None and self._fuses(number)

    def _fuses(self, number: int) -> bool:
        fact = self.facts[number]
        if fact is None or fact.role is not Role.ROOT:
            return fact is not None and fact.role in _FUSED
        shape = self.types[self.block.ops[number].operands[0]].shape
        return math.prod(shape) < _SMALL
