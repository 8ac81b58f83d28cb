"""Mistakes that change more than one op: results, regions, ops that are added."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from partir.ir.core import Op, Program, Signature

Rewrite = Callable[[Program, random.Random], Program | None]
WHOLE: dict[str, Rewrite] = {}
_NONLINEAR = ("exponential", "tanh", "rsqrt", "sqrt", "logistic", "log", "abs", "sine")


def rewrite(name: str) -> Callable[[Rewrite], Rewrite]:
    """Register a kind of mistake in the whole program."""

    def keep(change: Rewrite) -> Rewrite:
        assert name not in WHOLE, name
        WHOLE[name] = change
        return change

    return keep


def _pairs(program: Program, values: tuple[int, ...]) -> list[tuple[int, int]]:
    """Places of two values of one type."""
    return [
        (i, j)
        for i in range(len(values))
        for j in range(i)
        if program.types[values[i]] == program.types[values[j]]
        and values[i] != values[j]
    ]


def _with_results(program: Program, results: tuple[int, ...]) -> Program:
    return replace(program, body=replace(program.body, results=results))


@rewrite("results swapped")
def _results(program: Program, rng: random.Random) -> Program | None:
    """As if a donated buffer went to another result."""
    results = program.body.results
    pairs = _pairs(program, results)
    if not pairs:
        return None
    i, j = rng.choice(pairs)
    made = list(results)
    made[i], made[j] = made[j], made[i]
    return _with_results(program, tuple(made))


@rewrite("stale result")
def _stale(program: Program, rng: random.Random) -> Program | None:
    """An argument comes back in place of its update."""
    body = program.body
    places = [
        (n, v)
        for n, result in enumerate(body.results)
        for v in body.arguments
        if program.types[v] == program.types[result] and v != result
    ]
    if not places:
        return None
    place, value = rng.choice(places)
    made = (*body.results[:place], value, *body.results[place + 1 :])
    return _with_results(program, made)


def ops_of(program: Program, *names: str) -> list[int]:
    """Ops of these kinds in the main block."""
    return [n for n in program.body.ops if program.ops[n].signature.name in names]


def after(program: Program, op: int, made: Op) -> Program:
    """A program with one op more, behind another, whose readers read its result."""
    old, new = made.operands[0], made.results[0]

    def read(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(new if v == old else v for v in values)

    ops = [
        o._replace(operands=read(o.operands)) if n > op else o
        for n, o in enumerate(program.ops)
    ]
    body = replace(program.body, results=read(program.body.results))
    return inserted(replace(program, ops=tuple(ops), body=body), op, made)


def inserted(program: Program, op: int, made: Op) -> Program:
    """A program with one op more, behind another."""
    order = list(program.body.ops)
    order.insert(order.index(op) + 1, len(program.ops))
    body = replace(program.body, ops=tuple(order))
    types = (*program.types, *made.signature.results)
    return replace(program, ops=(*program.ops, made), body=body, types=types)


@rewrite("collective done once more")
def _doubled(program: Program, rng: random.Random) -> Program | None:
    found = ops_of(program, "all_reduce", "collective_permute")
    if not found:
        return None
    index = rng.choice(found)
    op = program.ops[index]
    made = op._replace(operands=op.results[:1], results=(len(program.types),))
    return after(program, index, made)


@rewrite("scaled twice")
def _scaled(program: Program, rng: random.Random) -> Program | None:
    """What was multiplied or divided by a number is so again."""
    found = [
        n
        for n in ops_of(program, "multiply", "divide")
        if (maker := program.producers.get(program.ops[n].operands[1])) is not None
        and program.ops[maker].signature.name in ("constant", "broadcast_in_dim")
    ]
    if not found:
        return None
    index = rng.choice(found)
    op = program.ops[index]
    operands = (op.results[0], op.operands[1])
    made = op._replace(operands=operands, results=(len(program.types),))
    return after(program, index, made)


@rewrite("sum moved past something nonlinear")
def _moved(program: Program, rng: random.Random) -> Program | None:
    """``f(all_reduce(x))`` becomes ``all_reduce(f(x))``."""
    found = []
    for index in ops_of(program, *_NONLINEAR):
        maker = program.producers.get(program.ops[index].operands[0])
        if maker is None or program.ops[maker].signature.name != "all_reduce":
            continue
        found.append((maker, index))
    if not found:
        return None
    first, second = rng.choice(found)
    ops = list(program.ops)
    before, after = ops[first], ops[second]
    ops[first] = before._replace(signature=after.signature)
    ops[second] = after._replace(signature=before.signature)
    return replace(program, ops=tuple(ops))


@rewrite("branches swapped")
def _branches(program: Program, rng: random.Random) -> Program | None:
    found = [
        n for n in ops_of(program, "case", "if") if len(program.ops[n].regions) > 1
    ]
    if not found:
        return None
    index = rng.choice(found)
    op = program.ops[index]
    first, second, *others = op.regions
    ops = list(program.ops)
    ops[index] = op._replace(regions=(second, first, *others))
    return replace(program, ops=tuple(ops))


@rewrite("loop starts from swapped values")
def _inits(program: Program, rng: random.Random) -> Program | None:
    found = [
        (n, pair)
        for n in ops_of(program, "while")
        for pair in _pairs(program, program.ops[n].operands)
    ]
    if not found:
        return None
    index, (i, j) = rng.choice(found)
    op = program.ops[index]
    operands = list(op.operands)
    operands[i], operands[j] = operands[j], operands[i]
    ops = list(program.ops)
    ops[index] = op._replace(operands=tuple(operands))
    return replace(program, ops=tuple(ops))


@rewrite("one turn of a loop more")
def _turns(program: Program, rng: random.Random) -> Program | None:
    found = [
        inner
        for n in ops_of(program, "while")
        for inner in program.ops[n].regions[0].ops
        if program.ops[inner].signature.name == "compare"
    ]
    if not found:
        return None
    index = rng.choice(found)
    op = program.ops[index]
    text = op.signature.attrs["comparison_direction"]
    turned = text.replace("LT", "LE") if "LT" in text else text.replace("LE", "LT")
    attrs = {**op.signature.attrs, "comparison_direction": turned}
    old = op.signature
    made = Signature.of(old.kind, attrs, old.operands, old.results)
    ops = list(program.ops)
    ops[index] = op._replace(signature=made)
    return replace(program, ops=tuple(ops)) if made is not old else None
