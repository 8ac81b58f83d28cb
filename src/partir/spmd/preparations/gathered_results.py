"""Results are made of tiles and gathered, instead of made of what was gathered.

With the optimiser's state sharded and parameters whole, updates are gathered and every
device subtracts all of them. Subtracting its tile first is less work, and what is
gathered is the new parameter itself, which needs no place beside its update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from partir.rules.factor import Factor
from partir.rules.host import runs_once
from partir.rules.identities import AGAIN, TILED, cites
from partir.rules.nest import Nest
from partir.rules.traits import Role, role_of
from partir.spmd.program import SLICE, Cause, Collective, Compute, SpmdOp
from partir.spmd.rewrites.sweep import Sweep

_LIGHT = (Role.CHEAP, Role.COSTLY, Role.VIEW)


@dataclass(frozen=True, slots=True)
class _Sunk:
    """A gather that could stand here, and the ops that would bring it here."""

    gather: Collective
    ops: dict[int, tuple[SpmdOp, ...]]  # by place
    bytes: int  # of what was gathered before


@cites(AGAIN)
def gather_results(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Gather a result, not what it is made of.

    rewrite:
        %1 = all_gather 0 {B} %u ; %2 = subtract %p %1 ; return %2
        ->
        %0 = all_slice 0 {B} %p ; %2 = subtract %0 %u ; %1 = all_gather 0 {B} %2
        return %1
    """
    results, sunk = set(sweep.block.results), dict[int, _Sunk]()
    replaced: dict[int, tuple[SpmdOp, ...]] = {}
    for place, op in enumerate(ops):
        if isinstance(op, Collective):
            if op.kind == "all_gather" and _sinks(sweep, op):
                sunk[op.result] = _Sunk(op, {place: ()}, sweep.types[op.result].bytes)
            continue
        if not isinstance(op, Compute) or sunk.keys().isdisjoint(op.operands):
            continue
        found = _behind(sweep, op, place, sunk)
        if found is None or sweep.reads[op.results[0]] != 1:
            continue
        sunk[op.results[0]] = found
        size = sweep.types[op.results[0]].bytes
        if op.results[0] in results and size <= found.bytes:
            replaced |= found.ops
            replaced[place] = (*found.ops[place], found.gather)
            sweep.renamed[op.results[0]] = found.gather.result
            sweep.types[found.gather.result] = sweep.types[op.results[0]]
    if not replaced:
        return ops
    return [new for at, op in enumerate(ops) for new in replaced.get(at, (op,))]


def _sinks(sweep: Sweep, op: Collective) -> bool:
    """Whether it waits for nothing, one op reads it, and its tiles are all alike."""
    have, made = sweep.types[op.operand].shape, sweep.types[op.result].shape
    parts = math.prod(sweep.program.mesh.axes[axis] for axis in op.axes)
    exact = made[op.dim] == have[op.dim] * parts
    return op.after < 0 and exact and sweep.reads[op.result] == 1


def _behind(
    sweep: Sweep, op: Compute, place: int, sunk: dict[int, _Sunk]
) -> _Sunk | None:
    """The op on tiles and the gather behind it."""
    position = next(i for i, v in enumerate(op.operands) if v in sunk)
    before = sunk[op.operands[position]]
    nest = _tiled(sweep, op.nest, before.gather, position)
    if nest is None:
        return None
    factor = nest.loops[-1].factor
    made, slices, operands = sweep.new(nest.result_types[0]), [], []
    edits, size = dict[int, tuple[SpmdOp, ...]](), 0
    for i, value in enumerate(op.operands):
        other, dim = sunk.get(value), factor.operands[i]
        if other is not None and _moves_alike(other.gather, before.gather, dim):
            edits, size = edits | other.ops, size + other.bytes
            operands.append(other.gather.operand)
        elif dim is None:
            operands.append(value)
        else:
            slices.append(_slice(sweep, before.gather, value, dim, op))
            operands.append(slices[-1].result)
    compute = op._replace(nest=nest, operands=tuple(operands), results=(made,))
    gather = before.gather._replace(operand=made, dim=_only(factor))
    return _Sunk(gather, edits | {place: (*slices, compute)}, size)


def _tiled(sweep: Sweep, nest: Nest, gather: Collective, position: int) -> Nest | None:
    """An op that does little inside loops over the gather's axes."""
    if len(nest.result_types) != 1 or runs_once(nest.signature):
        return None
    if role_of(nest) not in _LIGHT or set(gather.axes) & set(nest.axes):
        return None
    for axis in gather.axes:
        size = sweep.program.mesh.axes[axis]
        index = next(
            (i for i, f in enumerate(nest.factors) if _runs(f, position, gather.dim)),
            None,
        )
        if index is None or nest.factors[index].size % size:
            return None
        nest = nest.inside(axis, size, index)
    return nest


def _runs(factor: Factor, position: int, dim: int) -> bool:
    plain = factor.reduce is None and not factor.reach and not factor.once
    return plain and factor.operands[position] == dim and factor.results[0] is not None


def _moves_alike(gather: Collective, other: Collective, dim: int | None) -> bool:
    return gather.axes == other.axes and gather.dim == dim


@cites(TILED)
def _slice(
    sweep: Sweep, gather: Collective, value: int, dim: int, op: Compute
) -> Collective:
    source = sweep.program.program.ops[op.node].operands[op.operands.index(value)]
    return Collective(
        SLICE,
        value,
        sweep.new(sweep.tiled(sweep.types[value], dim, gather.axes)),
        gather.axes,
        Cause(source, None, op.node),
        dim,
    )


def _only(factor: Factor) -> int:
    (dim,) = factor.results
    assert dim is not None
    return dim
