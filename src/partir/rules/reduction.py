"""reduce, sort: kept dimensions are tiled, reduced ones recombine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from partir.ir.attributes import i64_array, integer, ints
from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.rules.factor import JOIN, Factor
from partir.rules.identities import JOINED, cites
from partir.rules.joins import (
    Join,
    Splats,
    Types,
    is_short,
    iterations,
    joined_by,
    lengths,
    partial_types,
)
from partir.rules.local import (
    Emitter,
    Ssa,
    constant,
    emit_default,
    selected,
    spread,
)
from partir.rules.masks import existing_rows
from partir.rules.monoids import OPS, anything, common_monoid
from partir.rules.nest import Nest
from partir.rules.reducers import counts_any_times, from_nothing, is_associative
from partir.rules.registry import local_form, rule

_BOOLEAN = tensor((), "i1")


@rule("reduce")
def reduce(op: Signature) -> Iterator[Factor]:
    """``(i, k), () -> (i) sum=k``; the initial value counts once.

    A reducer that is no monoid (argmax): ``(i, k), (i, k), (), () -> (i), (i) join=k``.
    """
    reduced = ints(op.attrs["dimensions"])
    count = len(op.operands) // 2
    inits = (None,) * count
    monoid = common_monoid(op.lambdas[0], count)
    once = tuple(range(count, 2 * count)) if monoid else ()
    joined = None if monoid else _in_order(op, reduced)
    result = 0
    for dim, size in enumerate(op.operands[0].shape):
        if dim not in reduced:
            yield Factor(size, (dim,) * count + inits, (result,) * count, loose=True)
            result += 1
        elif monoid or dim == joined:
            yield Factor(
                size,
                (dim,) * count + inits,
                (None,) * count,
                monoid or JOIN,
                once,
                loose=True,
            )


def _in_order(op: Signature, reduced: Sequence[int]) -> int | None:
    """The reduced dimension whose tiles follow each other in the order of elements.

    There is none if there are no elements: tiles have nothing to be joined.
    """
    shape = op.operands[0].shape
    if any(shape[dim] == 0 for dim in reduced) or not is_associative(op.lambdas[0]):
        return None
    return next((dim for dim in sorted(reduced) if shape[dim] > 1), None)


@local_form("reduce")
def reduce_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """As it is, but where a tile holds one element: that, joined to the initial value.

    XLA takes the initial value to be the identity there and leaves it out.
    """
    tiled = [loop.factor.reduce for loop in nest.loops if loop.factor.reduce]
    if not tiled or not _one_element(nest):
        return emit_default(nest, emitter, operands)
    count = len(nest.result_types)
    made: list[Ssa] = []
    for number, type_ in enumerate(nest.result_types):
        (element,) = emitter.op("stablehlo.reshape", (operands[number],), (type_,))
        init = spread(emitter, operands[count + number], type_)
        made += emitter.op(OPS[tiled[0]], (init, element), (type_,))
    return tuple(made)


def _one_element(nest: Nest) -> bool:
    """Whether a result is made of a single element."""
    shape = nest.operand_types[0].shape
    return math.prod(shape[dim] for dim in ints(nest.attrs["dimensions"])) == 1


class _Reduced(Join):
    """One row of each tile, reduced once more; the initial value counts there."""

    adds = True

    def dim(self, nest: Nest) -> int:
        return 0

    def rows(self, nest: Nest) -> tuple[int, int]:
        if not is_short(nest):
            return 1, iterations(nest)
        return 1, sum(length > 0 for length in lengths(nest))

    @cites(JOINED)
    def partial(
        self, nest: Nest, emitter: Emitter, operands: Sequence[Ssa], splats: Splats
    ) -> tuple[Ssa, ...]:
        count = len(nest.result_types)
        values, inits = list(operands[:count]), list(operands[count:])
        types = partial_types(nest, nest.result_types)
        if not _one_element(nest):
            body = nest.signature.lambdas[0]
            if counts_any_times(body, splats[count:]):
                values = _from_start(nest, emitter, values, inits)
            else:
                values = _from_nothing(nest, emitter, values)
        return tuple(
            emitter.op("stablehlo.reshape", (value,), (type_,))[0]
            for value, type_ in zip(values, types, strict=True)
        )

    def starts(self, nest: Nest) -> tuple[int, ...]:
        count = len(nest.result_types)
        return tuple(range(count, 2 * count))

    def whole(self, nest: Nest, laid: Types, results: Types) -> Signature:
        signature = nest.signature
        inits = signature.operands[len(laid) :]
        attrs = {**signature.attrs, "dimensions": i64_array([0])}
        return Signature.of(
            signature.kind, attrs, (*laid, *inits), results, signature.lambdas
        )


def _from_start(
    nest: Nest, emitter: Emitter, values: list[Ssa], inits: list[Ssa]
) -> list[Ssa]:
    """The op itself; behind the end of a short tile is the initial value."""
    inside = existing_rows(nest, emitter, values[0])
    if inside is not None:
        values = [
            selected(emitter, inside, value, spread(emitter, init, value.type))
            for value, init in zip(values, inits, strict=True)
        ]
    return list(emit_default(nest, emitter, (*values, *inits)))


def _from_nothing(nest: Nest, emitter: Emitter, values: list[Ssa]) -> list[Ssa]:
    """Only elements that there are, and no initial value."""
    marks = tensor(values[0].type.shape, "i1")
    inside = existing_rows(nest, emitter, values[0])
    inside = inside or constant(emitter, marks, "true")
    types = [value.type.with_shape(()) for value in values]
    inits = [constant(emitter, type_, anything(type_)) for type_ in types]
    made = emitter.op(
        nest.signature.kind,
        (*values, inside, *inits, constant(emitter, _BOOLEAN, "false")),
        (*nest.result_types, tensor(nest.result_types[0].shape, "i1")),
        nest.attrs,
        (from_nothing(nest.signature.lambdas[0]),),
    )
    return list(made[:-1])


joined_by("stablehlo.reduce", _Reduced())


@rule("sort")
def sort(op: Signature) -> Iterator[Factor]:
    """``(i, _), (i, _) -> (i, _), (i, _)``: all but the sorted dimension."""
    rank = len(op.operands[0].shape)
    yield from all_but(op, integer(op.attrs.get("dimension", "-1")) % max(rank, 1))


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
