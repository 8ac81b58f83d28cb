"""Gathers: none twice if memory allows."""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.identities import EQUAL, cites
from partir.spmd.lifetimes import Lifetimes
from partir.spmd.program import EXCHANGE, Collective, Compute, SpmdOp
from partir.spmd.sweep import Sweep, collectives_of, reads_of
from partir.spmd.wishes import wish_of

_MOVES = ("all_gather", "all_to_all", "collective_permute", EXCHANGE)


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
    A schedule may say otherwise.
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
                wish = _wish(sweep, op)
                if wish == "keep" or (
                    wish is None
                    and (
                        lives.replaces(value, op.operand, last[_key(op)])
                        or (
                            lives.lasts(value, op.result)
                            and _siblings(ops, start, place)
                        )
                    )
                ):
                    lives.hold(value, op.result)
                    sweep.renamed[op.result] = value
                    continue
            first[key] = (place, op.result)
        made.append(op)
    return made


def _wish(sweep: Sweep, op: Collective) -> str | None:
    """What the schedule says of this gather."""
    spmd = sweep.program
    return wish_of(spmd.program, spmd.gathers, op.cause.value, op.axes)


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
