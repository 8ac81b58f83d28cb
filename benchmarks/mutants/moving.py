"""Reductions at other places of a program, and rows in another order."""

from __future__ import annotations

import random
from dataclasses import replace

from benchmarks.mutants.whole import after, inserted, ops_of, rewrite
from partir.ir.attributes import i64_array
from partir.ir.core import Op, Program, Signature

_READERS = ("add", "multiply", "all_reduce", "reduce", "all_gather", "dot_general")


@rewrite("reduction moved past what reads it")
def _behind(program: Program, rng: random.Random) -> Program | None:
    """``f(all_reduce(x), y)`` becomes ``all_reduce(f(x, y))``."""
    reductions = {
        program.ops[n].results[0]: program.ops[n] for n in ops_of(program, "all_reduce")
    }
    found = [
        (index, place)
        for index in program.body.ops
        for place, value in enumerate(program.ops[index].operands)
        if value in reductions and _could_be_reduced(program, index, value)
    ]
    if not found:
        return None
    index, place = rng.choice(found)
    reduction = reductions[program.ops[index].operands[place]]
    changed = _reading(program, index, place, reduction.operands[0])
    made = _alike(changed, reduction, program.ops[index].results[0])
    return after(changed, index, made)


@rewrite("reduction moved before what makes it")
def _before(program: Program, rng: random.Random) -> Program | None:
    """``all_reduce(f(x, y))`` becomes ``f(all_reduce(x), y)``."""
    found = [
        (reduction, maker, place)
        for reduction in ops_of(program, "all_reduce")
        if (maker := _maker(program, program.ops[reduction].operands[0])) is not None
        for place, value in enumerate(program.ops[maker].operands)
        if _maker(program, value) is not None
        and _could_be_reduced(program, maker, value)
    ]
    if not found:
        return None
    last, maker, place = rng.choice(found)
    reduction, value = program.ops[last], program.ops[maker].operands[place]
    first = _maker(program, value)
    assert first is not None
    changed = _reading(program, maker, place, len(program.types))
    types = reduction.signature.results
    nothing = Signature.of("stablehlo.optimization_barrier", {}, types, types)
    changed = _with_op(changed, last, reduction._replace(signature=nothing))
    return inserted(changed, first, _alike(changed, reduction, value))


@rewrite("rows in reverse order")
def _reversed(program: Program, rng: random.Random) -> Program | None:
    found = [
        (maker, value)
        for n in ops_of(program, *_READERS)
        for value in program.ops[n].operands
        if (maker := _maker(program, value)) is not None
        and max(program.types[value].shape, default=1) > 1
    ]
    if not found:
        return None
    maker, value = rng.choice(found)
    type_ = program.types[value]
    dim = rng.choice([d for d, size in enumerate(type_.shape) if size > 1])
    attrs = {"dimensions": i64_array([dim])}
    signature = Signature.of("stablehlo.reverse", attrs, (type_,), (type_,))
    location = program.ops[maker].location
    return after(
        program, maker, Op(signature, (value,), (len(program.types),), location)
    )


def _maker(program: Program, value: int) -> int | None:
    """The op of the main block that makes a value."""
    maker = program.producers.get(value)
    return maker if maker in program.body.ops else None


def _could_be_reduced(program: Program, index: int, value: int) -> bool:
    """Whether a reduction of an op's operand could be one of its result."""
    op = program.ops[index]
    return (
        len(op.results) == 1
        and not op.regions
        and op.signature.name != "all_reduce"
        and program.types[op.results[0]].dtype == program.types[value].dtype
    )


def _alike(program: Program, reduction: Op, value: int) -> Op:
    """A reduction like another one, of another value."""
    old, types = reduction.signature, (program.types[value],)
    made = Signature.of(old.kind, old.attrs, types, types, old.lambdas)
    new = (len(program.types),)
    return reduction._replace(signature=made, operands=(value,), results=new)


def _reading(program: Program, index: int, place: int, value: int) -> Program:
    """A program in which an op reads another value."""
    op = program.ops[index]
    operands = (*op.operands[:place], value, *op.operands[place + 1 :])
    return _with_op(program, index, op._replace(operands=operands))


def _with_op(program: Program, index: int, op: Op) -> Program:
    ops = (*program.ops[:index], op, *program.ops[index + 1 :])
    return replace(program, ops=ops)
