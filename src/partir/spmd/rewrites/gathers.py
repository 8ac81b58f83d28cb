"""Gathers: none twice if memory allows."""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.identities import EQUAL, cites
from partir.spmd.program import EXCHANGE, Collective, FoldedRepeats, SpmdOp
from partir.spmd.rewrites.equal import Equals
from partir.spmd.rewrites.lifetimes import Lifetimes
from partir.spmd.rewrites.siblings import Siblings
from partir.spmd.rewrites.sweep import Sweep
from partir.spmd.wishes import wish_of

_MOVES = ("all_gather", "all_to_all", "collective_permute", EXCHANGE)


@cites(EQUAL)
def merge_gathers(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Equal moves of equal values become one where the memory between allows it.

    rewrite:
        %1 = all_gather 0 {B} %0 ; … ; %2 = all_gather 0 {B} %0
        ->
        %1 = all_gather 0 {B} %0 ; …

    Merging keeps the gathered value alive from the first use to the second. That is
    free only if the second use does not need the first, and the peak of memory does
    not rise; a weight gathered for the forward and the backward pass is thus gathered
    twice. It is free as well where the moved value takes the place of the one that it
    was made of, which nobody else reads any more. A schedule may say otherwise.
    """
    moves = [op for op in sweep.block.moves if op.kind in _MOVES]
    if len(moves) < 2:
        return ops
    equals = Equals(ops)
    keys = {op.result: _key(op, equals, sweep.program.repeats) for op in moves}
    last = {key: value for value, key in keys.items()}
    if len(last) == len(moves):
        return ops
    lives = Lifetimes(sweep, ops)
    siblings = Siblings(ops, keys, dict(lives.last))
    first: dict[tuple[object, ...], int] = {}
    made: list[SpmdOp] = []
    for op in ops:
        if isinstance(op, Collective) and op.kind in _MOVES:
            key = keys[op.result]
            value = first.get(key)
            if value is not None and _is_enough(
                _wish(sweep, op), value, op, last[key], lives, siblings
            ):
                lives.hold(value, op.result)
                sweep.renamed[op.result] = value
                continue
            first[key] = op.result
        made.append(op)
    return made


def _is_enough(
    wish: str | None,
    value: int,
    op: Collective,
    last: int,
    lives: Lifetimes,
    siblings: Siblings,
) -> bool:
    """Whether an equal value that was moved before may stand in for this one."""
    if wish is not None:
        return wish == "keep"
    if lives.replaces(value, op.operand, last):
        return True
    return lives.lasts(value, op.result) and siblings.are(value, op.result)


def _wish(sweep: Sweep, op: Collective) -> str | None:
    """What the schedule says of this gather."""
    spmd = sweep.program
    return wish_of(spmd.program, spmd.gathers, op.cause.value, op.axes)


def _key(
    op: Collective, equals: Equals, repeats: FoldedRepeats | None
) -> tuple[object, ...]:
    """The same for moves of equal values that are the same.

    What the layers of a folded program hand on is, in layers of another number, that
    of another layer.
    """
    value, layers = equals.of(op.operand), 0
    if repeats is not None and op.cause.value in repeats.handed:
        layers = repeats.times(op)
    return op.kind, value, op.axes, op.dim, op.to_dim, op.order, op.window, layers
