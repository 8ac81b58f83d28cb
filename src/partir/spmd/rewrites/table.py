"""The table of collective rewrites; none raises the bytes that are moved.

Each pass is one sweep over the ops of a block. To add one, write it here or beside
its kin, and put it into `PASSES`; it cites the identity that it uses.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from partir.ir.core import Program
from partir.rules.host import has_effects
from partir.rules.identities import SCATTERED, UNREAD, cites
from partir.spmd.program import (
    SLICE,
    Block,
    Collective,
    Control,
    SpmdOp,
    SpmdProgram,
)
from partir.spmd.rewrites.gathers import merge_gathers
from partir.spmd.rewrites.hoist import hoist_kept_gathers
from partir.spmd.rewrites.narrow_windows import narrow_windows
from partir.spmd.rewrites.sums import merge_sums
from partir.spmd.rewrites.sweep import Pass, Sweep, run_pass
from partir.spmd.rewrites.tie_gathers import tie_repeated_gathers


@cites(SCATTERED)
def scatter_reduced_slices(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Reduce only what is kept.

    rewrite:
        %1 = all_reduce {B} %0 ; %2 = all_slice 0 {B} %1
        ->
        %2 = reduce_scatter 0 {B} %0
    """
    moves = sweep.block.moves
    sums = {op.result for op in moves if op.kind == "all_reduce"}
    if not any(op.operand in sums for op in moves if _is_slice(op)):
        return ops
    made: list[SpmdOp | None] = []
    reduced: dict[int, int] = {}  # result of an all_reduce -> its place
    for op in ops:
        if isinstance(op, Collective) and _is_slice(op) and op.operand in reduced:
            before = made[reduced[op.operand]]
            assert isinstance(before, Collective)
            if sweep.reads[op.operand] == 1:
                made[reduced[op.operand]] = None
                made.extend(_scattered(sweep, before, op))
                if _is_all_reduce(made[-1]):
                    reduced[op.result] = len(made) - 1
                continue
        if isinstance(op, Collective) and _is_all_reduce(op):
            reduced[op.result] = len(made)
        made.append(op)
    return [op for op in made if op is not None]


def _is_slice(op: Collective) -> bool:
    return op.kind == SLICE and op.window is None


def _is_all_reduce(op: SpmdOp | None) -> bool:
    return isinstance(op, Collective) and op.kind == "all_reduce"


def _scattered(
    sweep: Sweep, reduced: Collective, sliced: Collective
) -> Iterator[Collective]:
    """Slice axes that are not reduced, scatter those that are, reduce the rest."""
    value, type_ = reduced.operand, sweep.types[reduced.operand]
    rest = tuple(axis for axis in reduced.axes if axis not in sliced.axes)
    runs = [
        (member, tuple(run))
        for member, run in groupby(sliced.axes, key=lambda a: a in reduced.axes)
    ]
    for number, (member, axes) in enumerate(runs):
        type_ = sweep.tiled(type_, sliced.dim, axes)
        last = number == len(runs) - 1 and not rest
        result = sliced.result if last else sweep.new(type_)
        kind = "reduce_scatter" if member else SLICE
        yield sliced._replace(
            kind=kind,
            operand=value,
            result=result,
            axes=axes,
            monoid=reduced.monoid if member else "",
            cause=reduced.cause,
        )
        value = result
    if rest:
        yield reduced._replace(operand=value, result=sliced.result, axes=rest)


@cites(UNREAD)
def drop_dead(program: SpmdProgram) -> SpmdProgram:
    """Leave out what nothing reads; ops with effects stay."""
    effects = program.program.once(_effects)
    live: set[int] = set(program.body.results)
    body = _live_block(program.body, live, effects)
    return program if body is program.body else replace(program, body=body)


def _live_block(block: Block, live: set[int], effects: frozenset[int]) -> Block:
    kept: list[SpmdOp] = []
    live.update(block.results)
    changed = False
    for op in reversed(block.ops):
        if live.isdisjoint(op.results) and (
            isinstance(op, Collective) or op.node not in effects
        ):
            changed = True
            continue
        if type(op) is Control and op.blocks:
            inner = tuple(_live_block(b, live, effects) for b in op.blocks)
            if any(map(operator.is_not, inner, op.blocks)):
                op, changed = replace(op, blocks=inner), True
        live.update(op.operands)
        kept.append(op)
    return replace(block, ops=tuple(reversed(kept))) if changed else block


def _effects(program: Program) -> frozenset[int]:
    """Ops with effects, and those with such an op in their regions."""
    marked: set[int] = set()
    for index in reversed(range(len(program.ops))):  # owners stand before
        op = program.ops[index]
        owns = op.regions and any(not marked.isdisjoint(r.ops) for r in op.regions)
        if owns or has_effects(op.signature):
            marked.add(index)
    return frozenset(marked)


PASSES: tuple[Pass, ...] = (
    narrow_windows,
    scatter_reduced_slices,
    merge_sums,
    scatter_reduced_slices,  # slices that a merged sum now stands before
    hoist_kept_gathers,
    merge_gathers,
    tie_repeated_gathers,
)


def rewrite(program: SpmdProgram) -> SpmdProgram:
    """All rewrites, dead ops left out before and after."""
    made = drop_dead(program)
    rewritten = made
    for one in PASSES:
        rewritten = run_pass(rewritten, one)
    return made if rewritten is made else drop_dead(rewritten)
