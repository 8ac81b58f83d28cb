"""Ops that move digits, or pass values on: they change no class."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

from partir.ir.attributes import CONSTRAINT, ints
from partir.ir.core import Op, Signature
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.layout import (
    Digit,
    DigitLayout,
    Unreadable,
    View,
    broadcast,
    digits,
    repeated,
    reshaped,
    transposed,
)
from partir.verify.layouts.merging import along_one
from partir.verify.machine.counting import converted, count, fits
from partir.verify.machine.machine import Machine, handler, mover


@mover("transpose")
def _transpose(signature: Signature, layout: DigitLayout) -> DigitLayout:
    return transposed(layout, ints(signature.attrs["permutation"]))


@mover("reshape")
def _reshape(signature: Signature, layout: DigitLayout) -> DigitLayout:
    return reshaped(layout, signature.results[0].shape)


@handler("reshape")
def _merged(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """Dimensions merged, and split at other places: first merged in the class, too."""
    (view,) = views
    target = op.signature.results[0].shape
    runs = _runs(op.signature.operands[0].shape, target)
    view = View(view.node, reshaped(view.layout, [math.prod(run) for run in runs]))
    for dim, run in enumerate(runs):
        alone = view.layout.with_local((view.layout.local[dim],))
        try:
            reshaped(alone, run)
        except Unreadable:
            view = along_one(machine.classes, view, dim)
    return [View(view.node, reshaped(view.layout, target))]


def _runs(shape: Sequence[int], target: Sequence[int]) -> list[tuple[int, ...]]:
    """Dimensions of the target, those together that others are merged into."""
    edges = {*itertools.accumulate(shape, operator.mul)}
    runs: list[list[int]] = [[]]
    for size, edge in zip(
        target, itertools.accumulate(target, operator.mul), strict=True
    ):
        runs[-1].append(size)
        if edge in edges:
            runs.append([])
    return [tuple(run) for run in runs if run]


@mover("broadcast_in_dim")
def _broadcast(signature: Signature, layout: DigitLayout) -> DigitLayout:
    dims = ints(signature.attrs["broadcast_dimensions"])
    return broadcast(layout, signature.results[0].shape, dims)


@mover("broadcast")
def _in_front(signature: Signature, layout: DigitLayout) -> DigitLayout:
    shape = signature.results[0].shape
    rank = len(signature.operands[0].shape)
    return broadcast(layout, shape, range(len(shape) - rank, len(shape)))


@handler("dynamic_reshape", "dynamic_broadcast_in_dim")
def _sized(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    """To a shape that its type says: the operand that says it, too, is not read."""
    signature = op.signature
    kind = signature.kind.replace("dynamic_", "")
    plain = Signature.of(
        kind, signature.attrs, signature.operands[:1], signature.results
    )
    return machine.results(op._replace(signature=plain), [views[0]])


@handler("get_dimension_size")
def _size(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """A number that the operand's type says."""
    (given,), (type_,) = op.signature.operands, op.signature.results
    dim = int(op.signature.attrs["dimension"].split()[0])
    return [machine.number(str(given.shape[dim]), type_)]


@handler("optimization_barrier", CONSTRAINT)
def _same(machine: Machine, op: Op, views: tuple[View, ...]) -> tuple[View, ...]:
    """A barrier delays, and changes no number."""
    return views


@handler("constant")
def _constant(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """One number everywhere depends on no index; others have dimensions."""
    text = op.signature.attrs["value"]
    (type_,) = op.signature.results
    literal = text[len("dense<") : text.rindex(">", 0, text.rindex(" : "))]
    shape = type_.shape
    if not literal.startswith(("[", '"')) and type_.tensor:
        return [machine.number(literal, type_)]
    sizes = tuple(size for size in shape if size > 1)
    term = ClassTerm("constant", literal, (), (), (), new=sizes, dtype=type_.dtype)
    numbers = iter(range(len(sizes)))
    local = tuple(
        digits((Digit(next(numbers), 1, size),)) if size > 1 else () for size in shape
    )
    return [View(machine.classes.of(term), DigitLayout(local, machine.alone))]


@handler("iota", "dynamic_iota")
def _iota(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """Counts along one dimension, of the size that its type says; all others repeat."""
    (type_,) = op.signature.results
    dim = int(op.signature.attrs["iota_dimension"].split()[0])
    size = type_.shape[dim]
    plain = type_.dtype[0] in "iu" and fits(type_.dtype, 0, size - 1)
    node = count(machine.classes, 0, ((1, size),), type_.dtype if plain else "i64")
    if not plain:  # floats, or integers that wrap round
        node = converted(machine.classes, node, type_.dtype)
    local = [repeated(n) for n in type_.shape]
    local[dim] = digits((Digit(0, 1, size),))
    return [View(node, DigitLayout(tuple(local), machine.alone))]
