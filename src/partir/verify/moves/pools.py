"""Gradients of pools whose padding has numbers.

In its normal form the source may have a select_and_scatter with the padding that was
around its operand. What is meant is that operand, padded with numbers that are never
chosen; what these get is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.attributes import FORMED, i64_array, ints
from partir.ir.core import Op, Signature
from partir.ir.types import TensorType
from partir.verify.classes.monoids import identity
from partir.verify.layouts.layout import Unreadable, View
from partir.verify.machine.machine import Machine, handler
from partir.verify.moves.chosen import pool_gradient


@handler("select_and_scatter")
def _pool_gradient(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    signature = op.signature
    if FORMED not in signature.attrs:
        try:
            return [pool_gradient(machine, signature, views)]
        except Unreadable:
            return machine.by_equation(op, views)
    if machine.classes.source is not None:  # whoever runs this knows of no such mark
        raise Unreadable("a normal form of the source, in a program that devices run")
    pad, plain, cut = _in_parts(signature)
    fill = machine.number(_never_chosen(signature), pad.operands[1])
    wide = _made(machine, op, pad, views[0], fill)
    return (_made(machine, op, cut, _made(machine, op, plain, wide, *views[1:])),)


def _made(machine: Machine, op: Op, signature: Signature, *views: View) -> View:
    (found,) = machine.results(op._replace(signature=signature), list(views))
    return machine.settled(found)


def _in_parts(signature: Signature) -> tuple[Signature, Signature, Signature]:
    """What pads, what chooses, what cuts off."""
    value, *others = signature.operands
    (result,) = signature.results
    padding = ints(signature.attrs["padding"])
    low, high = padding[::2], padding[1::2]
    sizes = zip(low, value.shape, high, strict=True)
    wide = value.with_shape(tuple(sum(three) for three in sizes))
    none, ones = i64_array([0] * len(low)), i64_array([1] * len(low))
    edges = {"edge_padding_low": i64_array(low), "edge_padding_high": i64_array(high)}
    pad = _op("pad", {**edges, "interior_padding": none}, (value, _one(value)), wide)
    left_out = (FORMED, "padding")
    attrs = {name: a for name, a in signature.attrs.items() if name not in left_out}
    made = result.with_shape(wide.shape)
    types = (wide, *others)
    plain = Signature.of(signature.kind, attrs, types, (made,), signature.lambdas)
    ends = [a + b for a, b in zip(low, result.shape, strict=True)]
    places = {"start_indices": i64_array(low), "limit_indices": i64_array(ends)}
    return pad, plain, _op("slice", {**places, "strides": ones}, (made,), result)


def _op(
    name: str, attrs: dict[str, str], operands: tuple[TensorType, ...], made: TensorType
) -> Signature:
    return Signature.of(f"stablehlo.{name}", attrs, operands, (made,))


def _one(type_: TensorType) -> TensorType:
    return type_.with_shape(())


def _never_chosen(signature: Signature) -> str:
    """What `select` prefers every number to: it takes the largest, or the smallest."""
    select, dtype = signature.lambdas[0], signature.operands[0].dtype
    if len(select.ops) == 1 and select.ops[0].operands == select.arguments:
        direction = select.ops[0].signature.attrs.get("comparison_direction", "")
        for monoid, names in (("max", (" GE>", " GT>")), ("min", (" LE>", " LT>"))):
            number = identity(monoid, dtype)
            if direction.endswith(names) and number is not None:
                return number
    raise Unreadable("a choice of something else than the largest or smallest")
