"""Sums move through linear ops, so that several become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partir.rules.bounds import Bounds
from partir.rules.identities import cites
from partir.rules.linear import adds_up, kinds
from partir.rules.nest import Nest
from partir.rules.registry import sums_pieces
from partir.spmd.program import Collective, Compute, SpmdOp
from partir.spmd.rewrites.sweep import Sweep

Edit = tuple[int, SpmdOp | None]


@dataclass(frozen=True, slots=True)
class Held:
    """A reduction that could stand here, and the edits that would bring it here."""

    reduction: Collective
    edits: tuple[Edit, ...]
    pieces: bool  # what it adds: one device has an element, the others nothing

    @classmethod
    def of(cls, sweep: Sweep, op: SpmdOp, place: int) -> Held | None:
        """A sum that one op reads, and no other; None for anything else."""
        if not isinstance(op, Collective) or sweep.reads[op.result] != 1:
            return None
        if op.kind not in ("all_reduce", "reduce_scatter") or op.monoid != "sum":
            return None
        return cls(op, ((place, None),), _of_pieces(sweep, op))

    @property
    def key(self) -> tuple[object, ...]:
        """Reductions merge if these agree."""
        r = self.reduction
        axes = tuple(sorted(r.axes)) if r.kind == "all_reduce" else r.axes
        return r.kind, axes, r.dim, r.monoid


@cites(*dict.fromkeys(kinds().values()))
def merge_sums(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """One reduction of a sum instead of a sum of reductions.

    rewrite:
        %2 = all_reduce {M} %0 ; %3 = all_reduce {M} %1 ; %4 = add %2 %3
        ->
        %2 = add %0 %1 ; %4 = all_reduce {M} %2

    Reductions also move past linear ops that make the value smaller, and past those
    that keep its size where they meet another reduction behind them.
    """
    made: list[SpmdOp | None] = []
    held: dict[int, Held] = {}
    changed = False
    for op in ops:
        place = len(made)
        made.append(op)
        if isinstance(op, Collective):
            one = Held.of(sweep, op, place)
            if one is not None:
                held[op.result] = one
            continue
        if held.keys().isdisjoint(op.operands) or not isinstance(op, Compute):
            continue
        found = {i: held[v] for i, v in enumerate(op.operands) if v in held}
        moved = moved_past(sweep, op, found)
        if moved is None:
            continue
        compute, reduction, gain = moved
        edits = tuple(edit for h in found.values() for edit in h.edits)
        if gain:
            changed = True
            for index, edit in (*edits, (place, compute)):
                made[index] = edit
            made.append(reduction)
            edits = ((place + 1, None),)
        else:
            edits = (*edits, (place, compute))
        if sweep.reads[reduction.result] == 1:
            pieces = all(h.pieces for h in found.values())
            held[reduction.result] = Held(reduction, edits, pieces)
    return [op for op in made if op is not None] if changed else ops


def _of_pieces(sweep: Sweep, reduction: Collective) -> bool:
    """Whether it may be: what a loop leaves is not known."""
    assert reduction.cause.producer is not None  # arguments are no sums
    op = sweep.program.program.ops[reduction.cause.producer]
    return bool(op.regions) or sums_pieces(op.signature)


def moved_past(
    sweep: Sweep, op: Compute, held: dict[int, Held]
) -> tuple[Compute, Collective, bool] | None:
    """The op on unreduced operands and the reduction behind it; whether that gains."""
    positions, signature = frozenset(held), op.nest.signature
    if len(op.results) != 1 or len({h.key for h in held.values()}) != 1:
        return None
    program = sweep.program.program
    sources, pieces = (
        program.ops[op.node].operands,
        any(h.pieces for h in held.values()),
    )
    if not adds_up(signature, sources, positions, Bounds.of(program), pieces):
        return None
    first = held[min(positions)].reduction
    target = _without_loops(op.nest, first, positions)
    if target is None:
        return None
    nest, dim = target
    value = sweep.new(nest.result_types[0])
    operands = tuple(
        held[i].reduction.operand if i in held else v for i, v in enumerate(op.operands)
    )
    before = [sweep.types[h.reduction.operand].bytes for h in held.values()]
    after = sweep.types[value].bytes
    if after > sum(before):
        return None
    compute = op._replace(nest=nest, operands=operands, results=(value,))
    reduction = first._replace(operand=value, result=op.results[0], dim=dim)
    return compute, reduction, len(held) > 1 or after < sum(before)


def _without_loops(
    nest: Nest, reduction: Collective, positions: frozenset[int]
) -> tuple[Nest, int] | None:
    """The op as it would stand before the reduction, and the dimension to scatter.

    An op that loops over the reduction's own axes stays behind it: its iterations read
    other tiles than those that would be added up. Before a reduce_scatter it leaves
    those loops, which it can if nothing but the scattered operands is tiled by them.
    """
    if reduction.kind == "all_reduce":
        return None if set(reduction.axes) & set(nest.axes) else (nest, -1)
    dims = set()
    for loop in nest.loops:
        if loop.axis not in reduction.axes:
            continue
        tiled = {i for i, dim in enumerate(loop.factor.operands) if dim is not None}
        scattered = {loop.factor.operands[i] for i in positions}
        if tiled != positions or scattered != {reduction.dim}:
            return None
        dims.add(loop.factor.results[0])
    outer = nest.without(reduction.axes)
    (dim,) = dims if len(dims) == 1 else (None,)
    return None if dim is None or outer is None else (outer, dim)
