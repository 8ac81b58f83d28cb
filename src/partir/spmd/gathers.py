"""Gathers: fewer bytes where a convert follows, and none twice if memory allows."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.types import tensor
from partir.rules.identities import CONVERTED, EQUAL, cites
from partir.rules.nest import Nest
from partir.spmd.lifetimes import Lifetimes
from partir.spmd.program import EXCHANGE, Collective, Compute, SpmdOp
from partir.spmd.sweep import Sweep, collectives_of, reads_of

_CONVERT = "stablehlo.convert"
_MOVES = ("all_gather", "all_to_all", "collective_permute", EXCHANGE)


@cites(CONVERTED)
def widen_after_gather(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Gather the narrow form.

    rewrite:
        %1 = convert %0 : bf16 -> f32 ; %2 = all_gather 0 {B} %1
        ->
        %1 = all_gather 0 {B} %0 ; %2 = convert %1
    """
    converted = {op.results[0] for op in _converts(ops)}
    if not any(op.operand in converted for op in _gathers(ops)):
        return ops
    made: list[SpmdOp | None] = []
    widened: dict[int, int] = {}
    for op in ops:
        place = widened.get(op.operands[0]) if len(op.operands) == 1 else None
        if isinstance(op, Compute) and _widens(sweep, op):
            widened[op.results[0]] = len(made)
        if place is None or not isinstance(op, Collective) or op.kind != "all_gather":
            made.append(op)
            continue
        convert = made[place]
        assert isinstance(convert, Compute)
        nest = convert.nest.without(op.axes)
        if nest is None:
            made.append(op)
            continue
        made[place] = None
        narrow = convert.nest.signature.operands[0].dtype
        value = sweep.new(tensor(sweep.types[op.result].shape, narrow))
        made.append(op._replace(operand=convert.operands[0], result=value))
        made.append(convert._replace(nest=nest, operands=(value,), results=op.results))
        if sweep.reads[op.result] == 1:
            widened[op.result] = len(made) - 1
    return [op for op in made if op is not None]


def _gathers(ops: Sequence[SpmdOp]) -> list[Collective]:
    return [op for op in collectives_of(ops) if op.kind == "all_gather"]


def _converts(ops: Sequence[SpmdOp]) -> list[Compute]:
    return [
        op for op in ops if type(op) is Compute and op.nest.signature.kind == _CONVERT
    ]


def _widens(sweep: Sweep, op: Compute) -> bool:
    """A convert to more bytes whose result has one reader."""
    if op.nest.signature.kind != _CONVERT or sweep.reads[op.results[0]] != 1:
        return False
    return sweep.types[op.results[0]].bytes > sweep.types[op.operands[0]].bytes


@cites(CONVERTED)
def narrow_before_gather(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Gather the narrow form.

    rewrite:
        %1 = all_gather 0 {B} %0 ; %2 = convert %1 : f32 -> bf16
        ->
        %1 = convert %0 ; %2 = all_gather 0 {B} %1
    """
    moved = {op.result for op in _gathers(ops)}
    if not any(op.operands[0] in moved for op in _converts(ops) if _narrows(op)):
        return ops
    made: list[SpmdOp] = []
    gathered: dict[int, int] = {}
    for op in ops:
        place = gathered.get(op.operands[0]) if len(op.operands) == 1 else None
        if place is None or not isinstance(op, Compute) or not _narrows(op):
            if isinstance(op, Collective) and op.kind == "all_gather":
                gathered[op.result] = len(made)
            made.append(op)
            continue
        gather = made[place]
        assert isinstance(gather, Collective)
        nest = _tiled_convert(sweep, op, gather)
        if nest is None or sweep.reads[gather.result] != 1:
            made.append(op)
            continue
        value = sweep.new(nest.result_types[0])
        made[place] = op._replace(
            nest=nest, operands=(gather.operand,), results=(value,)
        )
        made.insert(place + 1, gather._replace(operand=value, result=op.results[0]))
        gathered = {v: p + (p > place) for v, p in gathered.items()}
        gathered[op.results[0]] = place + 1
    return made


def _narrows(op: Compute) -> bool:
    signature = op.nest.signature
    return signature.kind == _CONVERT and (
        signature.results[0].bytes < signature.operands[0].bytes
    )


def _tiled_convert(sweep: Sweep, convert: Compute, gather: Collective) -> Nest | None:
    """The convert inside loops over what is gathered behind it."""
    nest = convert.nest
    for axis in gather.axes:
        dims = [f.results[0] for f in nest.factors]
        if gather.dim not in dims:
            return None
        size = sweep.program.mesh.axes[axis]
        nest = nest.inside(axis, size, dims.index(gather.dim))
    return nest


@cites(EQUAL)
def merge_gathers(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Equal moves of one value become one where the memory between them allows it.

    rewrite:
        %1 = all_gather 0 {B} %0 ; … ; %2 = all_gather 0 {B} %0
        ->
        %1 = all_gather 0 {B} %0 ; …

    Merging keeps the gathered value alive from the first use to the second. That is
    free only if the second use does not wait for the first, and what is between them
    needs less memory than the uses themselves; a weight gathered for the forward and
    the backward pass is thus gathered twice. It is free as well where the moved value
    takes the place of the one that it was made of, which nobody else reads any more.
    """
    moves = [op for op in collectives_of(ops) if op.kind in _MOVES]
    last = {_key(op): op.result for op in moves}
    if len(last) == len(moves):
        return ops
    lives: Lifetimes | None = None
    first: dict[tuple[object, ...], tuple[int, int]] = {}
    made: list[SpmdOp] = []
    for place, op in enumerate(ops):
        if isinstance(op, Collective) and op.kind in _MOVES:
            operand = sweep.renamed.get(op.operand, op.operand)
            key = _key(op, operand)
            if key in first:
                start, value = first[key]
                lives = lives or Lifetimes(sweep, ops)
                if lives.replaces(value, op.operand, last[_key(op)]) or (
                    lives.lasts(value, op.result) and _siblings(ops, start, place)
                ):
                    lives.hold(value, op.result)
                    sweep.renamed[op.result] = value
                    continue
            first[key] = (place, op.result)
        made.append(op)
    return made


def _key(op: Collective, operand: int | None = None) -> tuple[object, ...]:
    """Moves of one value that are the same."""
    value = op.operand if operand is None else operand
    return op.kind, value, op.axes, op.dim, op.to_dim, op.order, op.window


def _siblings(ops: Sequence[SpmdOp], start: int, end: int) -> bool:
    """Whether what reads the second move needs no product with the first.

    Ops of one operand (a transpose) only give it another form.
    """
    first, second = set(ops[start].results), set(ops[end].results)
    products: set[int] = set()
    for place in range(start + 1, len(ops)):
        op = ops[place]
        if place == end:
            continue
        reads = set(reads_of(op))
        if not reads.isdisjoint(second):
            if not reads.isdisjoint(products):
                return False
            if reads <= second:
                second.update(op.results)
        if not reads.isdisjoint(products):
            products.update(op.results)
        elif not reads.isdisjoint(first):
            (products if _multiplies(op) else first).update(op.results)
    return True


def _multiplies(op: SpmdOp) -> bool:
    """Whether it sums products of operands, or may do so."""
    if not isinstance(op, Compute):
        return not isinstance(op, Collective)
    return any(
        factor.reduce and sum(dim is not None for dim in factor.operands) > 1
        for factor in op.nest.factors
    )
