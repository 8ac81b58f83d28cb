"""Reductions over local dimensions and over mesh axes."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.attributes import ints
from partir.ir.core import Op
from partir.ir.types import TensorType, tensor
from partir.verify.align import Alignment, Equation
from partir.verify.layout import Unreadable, View
from partir.verify.machine import Machine, handler
from partir.verify.monoids import OPS, monoid_of
from partir.verify.sums import Reduction, reduce, repeated_often, starts_reduction


def reduced(
    machine: Machine, monoid: str, equation: Equation, view: View, shape: Sequence[int]
) -> View:
    """A value reduced over the labels and axes that an equation binds."""
    aligned = Alignment(equation, [view.layout])
    (dims,) = aligned.refs
    sizes = {v: aligned.use.sizes[v] for dim in dims for v in dim}
    made = reduce(
        machine.classes, Reduction(monoid, view.node, dims, sizes, aligned.bound)
    )
    found = repeated_often(machine.classes, made, monoid, aligned.repeats())
    if found is None:
        raise Unreadable(f"a {monoid} of equal values")
    layout, _ = aligned.result(0, shape, found.where, 0)
    return View(found.node, layout)


@handler("reduce")
def _reduce(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    signature = op.signature
    monoid = monoid_of(signature.lambdas[0]) if len(views) == 2 else None
    if monoid is None:
        return machine.by_equation(op, views)
    along = ints(signature.attrs["dimensions"])
    labels = tuple(range(len(signature.operands[0].shape)))
    kept = tuple(label for label in labels if label not in along)
    equation = Equation("reduce", (labels,), (kept,))
    (type_,) = signature.results
    made = reduced(machine, monoid, equation, views[0], type_.shape)
    if starts_reduction(monoid, machine.term(views[1])):
        return [made]
    return [_joined(machine, monoid, made, views[1], type_)]


def _joined(
    machine: Machine, monoid: str, made: View, start: View, type_: TensorType
) -> View:
    """An initial value that counts: one more of what is reduced."""
    labels = tuple(range(len(type_.shape)))
    attrs = ((), type_.dtype, type_.dtype)
    equation = Equation(OPS[monoid], (labels, ()), (labels,), attrs)
    (found,) = machine.apply(
        equation, (made, start), (tensor(type_.shape, type_.dtype),)
    )
    return found


def reduced_over_axes(
    machine: Machine, monoid: str, view: View, axes: Sequence[int], shape: Sequence[int]
) -> View:
    """What all devices that differ in `axes` hold, reduced."""
    labels = tuple(range(len(shape)))
    equation = Equation("reduce", (labels,), (labels,), bound_axes=frozenset(axes))
    return reduced(machine, monoid, equation, view, shape)
