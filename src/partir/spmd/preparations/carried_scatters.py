"""What is scattered of what a loop carries is scattered before that is replaced.

A layer's last gradient is made of what the loop over layers carries. XLA writes the
next value over it, and has the gradient made before; where it minds memory it leaves
the scatter for the end of the iteration all the same, and the whole gradient stays in
memory beside those of the other weights. So what is carried waits for the scatter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from partir.rules.identities import WAITING, cites
from partir.rules.traits import Role, role_of
from partir.spmd.program import Block, Collective, Compute, Control, SpmdOp
from partir.spmd.rewrites.sweep import Sweep, renamed_in


@cites(WAITING)
def scatter_before_replacing(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Let what a loop carries next wait for what is scattered of what it carries now.

    rewrite:
        while %c … { %1 = dot %x %c ; %2 = reduce_scatter %1 ; … %3 = … } -> %3
        ->
        while %c … { … ; %3 = … ; %4, %5 = barrier %3, %2 } -> %4, with %5 for %2
    """
    made = [_scattered_first(sweep, op) for op in ops]
    return made if any(map(lambda a, b: a is not b, made, ops)) else ops


def _scattered_first(sweep: Sweep, op: SpmdOp) -> SpmdOp:
    if not isinstance(op, Control) or len(op.blocks) != 2 or op.trips == 1:
        return op
    tested, body = op.blocks
    for position, value in enumerate(body.arguments):
        body = _waiting(sweep, body, position, list(_scattered(body, value)))
    return op if body is op.blocks[1] else replace(op, blocks=(tested, body))


def _scattered(body: Block, carried: int) -> Iterator[int]:
    """What is scattered of products with what is carried."""
    views, wholes, tiles = {carried}, set[int](), set[int]()
    for op in body.ops:
        if isinstance(op, Collective):
            if op.kind == "reduce_scatter" and op.operand in wholes:
                tiles.add(op.result)
        elif isinstance(op, Compute):
            role = role_of(op.nest)
            if role is Role.UPDATE and not tiles.isdisjoint(op.operands[1:]):
                yield op.results[0]
            elif role is Role.VIEW or len(op.operands) == 1:
                for known in (views, wholes, tiles):
                    known.update(() if known.isdisjoint(op.operands) else op.results)
            elif role is Role.OPAQUE and not views.isdisjoint(op.operands):
                wholes.update(op.results)


def _waiting(
    sweep: Sweep, body: Block, position: int, scattered: Sequence[int]
) -> Block:
    """The body, one of whose results waits for these; others read them through."""
    born = {value: place for place, op in enumerate(body.ops) for value in op.results}
    result = body.results[position]
    if not scattered or result not in born:
        return body
    known = (result, *scattered)
    place = 1 + max(born[value] for value in known)
    rest = Block((), body.ops[place:], body.results)
    new = {value: sweep.new(sweep.types[value]) for value in known}
    node = next(op.node for op in reversed(body.ops[:place]) if isinstance(op, Compute))
    barrier = Control(node, tuple(new), tuple(new.values()))
    rest = renamed_in(new, rest)
    return Block(body.arguments, (*body.ops[:place], barrier, *rest.ops), rest.results)
