"""What collective rewrites share: types, read counts, and blocks within blocks."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

from partir.ir.types import TensorType
from partir.spmd.program import (
    Block,
    Collective,
    Control,
    SpmdOp,
    SpmdProgram,
)


class Sweep:
    """What a pass may ask while it goes over a program once."""

    def __init__(self, program: SpmdProgram) -> None:
        """Start a pass over a program."""
        self.program = program
        self.types = list(program.types)
        self.splats = program.splats
        self.block = program.body  # the one being swept
        self.renamed: dict[int, int] = {}  # values that another one stands in for

    @cached_property
    def reads(self) -> Counter[int]:
        """How often each value is read."""
        nested = self.program.program.nested
        return Counter(_reads(self.program.body, nested))

    def new(self, type_: TensorType) -> int:
        """A new value."""
        self.types.append(type_)
        return len(self.types) - 1

    def tiled(self, type_: TensorType, dim: int, axes: tuple[str, ...]) -> TensorType:
        """A type with one dimension divided over more axes."""
        shape = list(type_.shape)
        for axis in axes:
            shape[dim] = -(-shape[dim] // self.program.mesh.axes[axis])
        return type_.with_shape(tuple(shape))


Pass = Callable[[Sweep, Sequence[SpmdOp]], Sequence[SpmdOp]]
"""Takes a block's ops in order, gives the new ones; the same if nothing changes."""


def run_pass(program: SpmdProgram, one: Pass) -> SpmdProgram:
    """Apply a pass to every block, inner ones first; the same program if none."""
    sweep = Sweep(program)
    body = _block(sweep, program.body, one)
    if sweep.renamed:
        body = renamed_in(sweep.renamed, body)
    if body is program.body:
        return program
    return replace(program, types=tuple(sweep.types), body=body)


def _block(sweep: Sweep, block: Block, one: Pass) -> Block:
    ops: Sequence[SpmdOp] = block.ops
    if sweep.program.program.nested:
        ops = [_with_inner(sweep, op, one) for op in ops]
        if all(map(operator.is_, ops, block.ops)):
            ops = block.ops
    sweep.block = block
    made = one(sweep, ops)
    return block if made is block.ops else replace(block, ops=tuple(made))


def _with_inner(sweep: Sweep, op: SpmdOp, one: Pass) -> SpmdOp:
    if not isinstance(op, Control) or not op.blocks:
        return op
    made = tuple([_block(sweep, inner, one) for inner in op.blocks])
    same = all(map(operator.is_, made, op.blocks))
    return op if same else replace(op, blocks=made)


def collectives_of(ops: Iterable[SpmdOp]) -> list[Collective]:
    """Those among these ops; a block knows its own."""
    return [op for op in ops if type(op) is Collective]


def reads_by_op(ops: Sequence[SpmdOp]) -> list[tuple[int, ...]]:
    """Values that each op reads, those read inside its blocks included."""
    return [tuple(reads_of(op)) if type(op) is Control else op.operands for op in ops]


def renamed_in(renamed: dict[int, int], block: Block) -> Block:
    """The block with other values in place of these, in its own blocks too."""

    def new(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([renamed.get(v, v) for v in values])

    def one(op: SpmdOp) -> SpmdOp:
        if isinstance(op, Collective):
            return op._replace(operand=renamed.get(op.operand, op.operand))
        if isinstance(op, Control):
            blocks = tuple(renamed_in(renamed, inner) for inner in op.blocks)
            return replace(op, operands=new(op.operands), blocks=blocks)
        return op._replace(operands=new(op.operands))

    touched = renamed.keys()
    ops = tuple(
        one(op) if isinstance(op, Control) or touched & set(op.operands) else op
        for op in block.ops
    )
    return Block(block.arguments, ops, new(block.results))


def reading(op: SpmdOp, names: dict[int, int]) -> SpmdOp:
    """The op with what stands for its operands."""
    if isinstance(op, Control):
        operands = tuple(names.get(v, v) for v in op.operands)
        blocks = tuple(renamed_in(names, block) for block in op.blocks)
        return replace(op, operands=operands, blocks=blocks)
    if names.keys().isdisjoint(op.operands):
        return op
    if isinstance(op, Collective):
        operand, after = (names.get(v, v) for v in (op.operand, op.after))
        return op._replace(operand=operand, after=after)
    return op._replace(operands=tuple(names.get(v, v) for v in op.operands))


def reads_of(op: SpmdOp) -> Iterator[int]:
    """Values that an op reads, those read inside its blocks included."""
    yield from op.operands
    if isinstance(op, Control):
        for inner in op.blocks:
            yield from _reads(inner)


def _reads(block: Block, nested: bool = True) -> Iterator[int]:
    yield from chain.from_iterable([op.operands for op in block.ops])
    for op in block.ops if nested else ():
        if isinstance(op, Control):
            for inner in op.blocks:
                yield from _reads(inner)
    yield from block.results
