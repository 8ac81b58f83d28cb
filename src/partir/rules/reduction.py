"""reduce, sort, top_k: kept dimensions are tiled, reduced ones join by the monoid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from partir.ir.attributes import integer, ints
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import Emitter, Ssa, emit_default, spread
from partir.rules.monoids import OPS, common_monoid
from partir.rules.nest import Nest
from partir.rules.registry import local_form, rule


@rule("reduce")
def reduce(op: Signature) -> Iterator[Factor]:
    """``(i, k), () -> (i) sum=k``; the initial value counts once.

    A reducer that is no monoid (argmax): kept dimensions.
    """
    reduced = ints(op.attrs["dimensions"])
    count = len(op.operands) // 2
    inits = (None,) * count
    monoid = common_monoid(op.lambdas[0], count)
    once = tuple(range(count, 2 * count))
    result = 0
    for dim, size in enumerate(op.operands[0].shape):
        if dim not in reduced:
            yield Factor(size, (dim,) * count + inits, (result,) * count, loose=True)
            result += 1
        elif monoid:
            yield Factor(
                size,
                (dim,) * count + inits,
                (None,) * count,
                monoid,
                once,
                loose=True,
            )


@local_form("reduce")
def reduce_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """As it is, but where a tile holds one element: that, joined to the initial value.

    XLA takes the initial value to be the identity there and leaves it out.
    """
    reduced = ints(nest.signature.attrs["dimensions"])
    shape = nest.operand_types[0].shape
    tiled = [loop.factor.reduce for loop in nest.loops if loop.factor.reduce]
    if not tiled or math.prod(shape[dim] for dim in reduced) != 1:
        return emit_default(nest, emitter, operands)
    count = len(nest.result_types)
    made: list[Ssa] = []
    for number, type_ in enumerate(nest.result_types):
        (element,) = emitter.op("stablehlo.reshape", (operands[number],), (type_,))
        init = spread(emitter, operands[count + number], type_)
        made += emitter.op(OPS[tiled[0]], (init, element), (type_,))
    return tuple(made)


@rule("sort")
def sort(op: Signature) -> Iterator[Factor]:
    """``(i, _), (i, _) -> (i, _), (i, _)``: all but the sorted dimension."""
    rank = len(op.operands[0].shape)
    yield from all_but(op, integer(op.attrs.get("dimension", "-1")) % max(rank, 1))


@rule("chlo.top_k")
def top_k(op: Signature) -> Iterator[Factor]:
    """``(i, _) -> (i, _), (i, _)``: all but the last dimension."""
    yield from all_but(op, len(op.operands[0].shape) - 1)


def all_but(op: Signature, touched: int) -> Iterator[Factor]:
    """Every dimension but one, in all operands (but scalars) and results alike."""
    for dim, size in enumerate(op.operands[0].shape):
        if dim != touched:
            yield Factor(
                size,
                tuple(dim if operand.shape else None for operand in op.operands),
                (dim,) * len(op.results),
                loose=True,
            )
