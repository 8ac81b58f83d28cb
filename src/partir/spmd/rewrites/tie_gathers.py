"""Gathers that must not be merged: each waits for what it is needed with.

A weight that is sharded over the data axis is gathered for the forward and again for
the backward pass, so that it is never kept in between. To a compiler the two gathers
look the same; it would merge them and keep the weight. A barrier that ties each to
the activation it is needed with makes them differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from partir.rules.identities import WAITING, cites
from partir.rules.traits import Role, role_of
from partir.spmd.program import Collective, Compute, SpmdOp
from partir.spmd.rewrites.sweep import Sweep

_MUCH = 16  # times as much as a gather waits for


@cites(WAITING)
def tie_repeated_gathers(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Make gathers of one value wait for the other operand of what reads them.

    rewrite:
        %1 = all_gather 0 {B} %w ; … ; %2 = all_gather 0 {B} %w ; dot %x %2
        ->
        %1 = all_gather 0 {B} %w ; … ; %2 = all_gather 0 {B} %w after %x ; dot %x %2
    """
    repeated = Counter(gather_key(op) for op in sweep.block.moves)
    if max(repeated.values(), default=0) < 2:
        return ops
    again = {op.result for op in sweep.block.moves if repeated[gather_key(op)] > 1}
    return _tied(sweep, ops, again)


@cites(WAITING)
def tie_large_gathers(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Make a product's first gather of a value wait, too, if it makes much more.

    What it waits for is in memory because of that: this must be little beside what a
    gather that does not wait would keep there.

    rewrite:
        %1 = all_gather 0 {B} %w ; dot %x %1 ; … ; %2 = all_gather 0 {B} %w after %y
        ->
        %1 = all_gather 0 {B} %w after %x ; dot %x %1 ; … ; %2 = …
    """
    repeated = Counter(gather_key(op) for op in sweep.block.moves)
    untied = {
        op.result
        for op in sweep.block.moves
        if op.after < 0 and repeated[gather_key(op)] > 1
    }
    return _tied(sweep, ops, untied, much=_MUCH) if untied else ops


@cites(WAITING)
def tie_gathers_in_loops(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Make every gather in a loop wait for the other operand of what reads it.

    rewrite:
        while … { %1 = all_gather 0 {B} %w ; dot %x %1 }
        ->
        while … { %1 = all_gather 0 {B} %w after %x ; dot %x %1 }
    """
    untied = {op.result for op in sweep.block.moves if op.after < 0}
    if not untied or sweep.block is sweep.program.body:
        return ops
    return _tied(sweep, ops, untied)


def _tied(
    sweep: Sweep, ops: Sequence[SpmdOp], gathered: set[int], much: int = 0
) -> Sequence[SpmdOp]:
    """Make these gathers wait; those that make so much more than they wait for."""
    made = list(ops)
    born = {value: place for place, op in enumerate(made) for value in op.results}
    readers: dict[int, Compute] = {}
    for op in reversed(made):
        if isinstance(op, Compute) and not gathered.isdisjoint(op.operands):
            readers.update(dict.fromkeys(op.operands, op))
    for place, op in enumerate(made):
        if not isinstance(op, Collective) or op.kind != "all_gather":
            continue
        reader = readers.get(op.result)
        if op.result in gathered and reader is not None:
            after = _latest(sweep, reader, op.result, born, place)
            if not much or _pays(sweep, reader, after, op.result, much):
                made[place] = op._replace(after=after)
    return made


def _pays(sweep: Sweep, reader: Compute, after: int, gathered: int, much: int) -> bool:
    """Whether a product needs what is gathered with something much smaller."""
    if after < 0 or role_of(reader.nest) is not Role.OPAQUE:
        return False
    return sweep.types[after].bytes * much <= sweep.types[gathered].bytes


def gather_key(op: Collective) -> tuple[object, ...]:
    """Equal for gathers of one value that make the same."""
    return op.kind, op.operand, op.axes, op.dim


def _latest(
    sweep: Sweep, reader: Compute, gathered: int, born: dict[int, int], place: int
) -> int:
    """The other operand that is made last, if it is there before the gather."""
    others = [
        v
        for v in reader.operands
        if v != gathered and v not in sweep.splats and born.get(v, place) < place
    ]
    return max(others, key=lambda v: born[v], default=-1)
