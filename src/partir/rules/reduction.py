"""reduce and sort: kept dimensions are tiled, reduced ones recombine by the monoid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from partir.ir.attributes import i64_array, integer, ints
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import Emitter, Ssa, emit_default
from partir.rules.monoids import OPS, monoid_of
from partir.rules.nest import Nest
from partir.rules.registry import local_form, rule


@rule("reduce")
def reduce(op: Signature) -> Iterator[Factor]:
    """``(i, k), () -> (i) sum=k``; the initial value counts once.

    Several operands at once (argmax) or a reducer that is no monoid: kept dimensions.
    """
    reduced = ints(op.attrs["dimensions"])
    count = len(op.operands) // 2
    shape = op.operands[0].shape
    inits = (None,) * count
    monoid = monoid_of(op.lambdas[0]) if count == 1 else None
    result = 0
    for dim, size in enumerate(shape):
        if dim not in reduced:
            yield Factor(size, (dim,) * count + inits, (result,) * count)
            result += 1
        elif monoid:
            yield Factor(size, (dim, None), (None,), monoid, once=(1,))


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
    if not tiled or math.prod(shape[dim] for dim in reduced) > 1:
        return emit_default(nest, emitter, operands)
    element, init = operands
    (result,) = nest.result_types
    (element,) = emitter.op("stablehlo.reshape", (element,), (result,))
    attrs = {"broadcast_dimensions": i64_array(())}
    (init,) = emitter.op("stablehlo.broadcast_in_dim", (init,), (result,), attrs)
    return emitter.op(OPS[tiled[0]], (init, element), (result,))


@rule("sort")
def sort(op: Signature) -> Iterator[Factor]:
    """All but the sorted dimension."""
    sorted_dim = integer(op.attrs["dimension"])
    for dim, size in enumerate(op.operands[0].shape):
        if dim != sorted_dim % max(len(op.operands[0].shape), 1):
            yield Factor(size, (dim,) * len(op.operands), (dim,) * len(op.results))
