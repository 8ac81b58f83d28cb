"""Gathers: fewer bytes where a convert follows, and none twice if memory allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from partir.ir.types import tensor
from partir.rules.nest import Nest, nest_of
from partir.spmd.program import Collective, Compute, SpmdOp
from partir.spmd.sweep import Sweep, reads_of

_CONVERT = "stablehlo.convert"
_MOVES = ("all_gather", "all_to_all", "collective_permute")


def widen_after_gather(sweep: Sweep, ops: Iterator[SpmdOp]) -> list[SpmdOp]:
    """Gather the narrow form.

    rewrite:
        %1 = convert %0 : bf16 -> f32 ; %2 = all_gather 0 {B} %1
        ->
        %1 = all_gather 0 {B} %0 ; %2 = convert %1
    """
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
        made[place] = None
        narrow = convert.nest.signature.operands[0].dtype
        value = sweep.new(tensor(sweep.types[op.result].shape, narrow))
        made.append(replace(op, operand=convert.operands[0], result=value))
        nest = _whole_convert(convert, op)
        made.append(convert._replace(nest=nest, operands=(value,), results=op.results))
        if sweep.reads[op.result] == 1:
            widened[op.result] = len(made) - 1
    return [op for op in made if op is not None]


def _widens(sweep: Sweep, op: Compute) -> bool:
    """A convert to more bytes whose result has one reader."""
    if op.nest.signature.kind != _CONVERT or sweep.reads[op.results[0]] != 1:
        return False
    return sweep.types[op.results[0]].bytes > sweep.types[op.operands[0]].bytes


def _whole_convert(convert: Compute, gather: Collective) -> Nest:
    """The convert without the loops over what is now gathered before it."""
    nest = nest_of(convert.nest.signature)
    for loop in convert.nest.loops:
        if not (loop.axis in gather.axes and loop.factor.results[0] == gather.dim):
            number = next(
                i
                for i, factor in enumerate(nest.factors)
                if factor.results == loop.factor.results
            )
            nest = nest.inside(loop.axis, loop.size, number)
    return nest


def merge_gathers(sweep: Sweep, ops: Iterator[SpmdOp]) -> list[SpmdOp]:
    """Equal moves of one value become one where the memory between them allows it.

    rewrite:
        %1 = all_gather 0 {B} %0 ; … ; %2 = all_gather 0 {B} %0
        ->
        %1 = all_gather 0 {B} %0 ; …

    Merging keeps the gathered value alive from the first use to the second. That is
    free only if the second use does not wait for the first, and nothing between them
    needs more memory than the uses themselves; a weight gathered for the forward and
    the backward pass is thus gathered twice.
    """
    listed = list(ops)
    live: np.ndarray | None = None
    first: dict[tuple[object, ...], tuple[int, int]] = {}
    made: list[SpmdOp] = []
    for place, op in enumerate(listed):
        if isinstance(op, Collective) and op.kind in _MOVES:
            operand = sweep.renamed.get(op.operand, op.operand)
            key = (op.kind, operand, op.axes, op.dim, op.to_dim, op.order)
            if key in first:
                start, value = first[key]
                live = _live_bytes(sweep, listed) if live is None else live
                if _fits(live, start, place) and _siblings(listed, start, place):
                    live[start : place + 1] += sweep.types[op.result].bytes
                    sweep.renamed[op.result] = value
                    continue
            first[key] = (place, op.result)
        made.append(op)
    return made


def _fits(live: np.ndarray, start: int, end: int) -> bool:
    """Whether nothing from `start` to `end` needs more than its two ends."""
    return bool(live[start : end + 1].max() <= max(live[start], live[end]))


def _siblings(ops: list[SpmdOp], start: int, end: int) -> bool:
    """Whether what reads the second move needs nothing that reads the first."""
    behind = set(ops[start].results)
    for op in ops[start + 1 : end]:
        if not behind.isdisjoint(reads_of(op)):
            behind.update(op.results)
    (value,) = ops[end].results
    readers = (op for op in ops[end + 1 :] if value in reads_of(op))
    reader = next(readers, None)
    return reader is None or behind.isdisjoint(reads_of(reader))


def _live_bytes(sweep: Sweep, ops: list[SpmdOp]) -> np.ndarray:
    """Bytes of this block's values that are alive at each op."""
    born: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, op in enumerate(ops):
        for value in reads_of(op):
            last[value] = place
        for value in op.results:
            born[value] = last[value] = place
    change = np.zeros(len(ops) + 1)
    for value, place in born.items():
        size = sweep.types[value].bytes
        change[place] += size
        change[last[value] + 1] -= size
    return np.cumsum(change[:-1])
