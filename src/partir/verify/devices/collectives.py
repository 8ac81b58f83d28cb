"""What collectives mean: they move digits between axes and dimensions, or reduce."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

from partir.ir.attributes import integer
from partir.ir.core import Op
from partir.verify.classes.monoids import keeps_type, monoid_of
from partir.verify.layouts.groups import axes_of, group_text
from partir.verify.layouts.layout import (
    DigitLayout,
    Unreadable,
    View,
    digits,
    gathered,
    scattered,
    size_of,
    split_off,
)
from partir.verify.layouts.merging import along_one
from partir.verify.machine.machine import Machine, handler
from partir.verify.reductions.reductions import reduced_over_axes


def _axes(machine: Machine, op: Op) -> tuple[int, ...]:
    key = group_text(op.signature)
    if key not in machine.groups:
        machine.groups[key] = axes_of(key, machine.names, machine.sizes)
    return machine.groups[key]


@handler("all_gather")
def _all_gather(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    axes = _axes(machine, op)
    dim = integer(op.signature.attrs["all_gather_dim"])
    made = [View(v.node, gathered(v.layout, dim, axes)) for v in views]
    if len(views) == 1:
        machine.again.moved((op.signature, views[0].layout), made[0].layout)
    return made


def _monoid(op: Op) -> str:
    monoid = monoid_of(op.signature.lambdas[0])
    if monoid is None or not keeps_type(op.signature):
        raise Unreadable("a reduction over devices that has no name")
    return monoid


@handler("all_reduce")
def _all_reduce(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    axes, monoid = _axes(machine, op), _monoid(op)
    return [
        _reduced(machine, monoid, view, axes, value)
        for view, value in zip(views, op.operands, strict=True)
    ]


def _reduced(
    machine: Machine, monoid: str, view: View, axes: Sequence[int], value: int
) -> View:
    """A value reduced over devices; what is put side by side, piece by piece."""
    shape = machine.program.types[value].shape
    made = reduced_over_axes(machine, monoid, view, axes, shape)
    maker = machine.program.producers.get(value)
    op = None if maker is None else machine.program.ops[maker]
    if op is None or op.signature.name != "concatenate":
        return made
    if machine.classes.in_source(made.node):
        return made
    with contextlib.suppress(Unreadable):
        pieces = [
            machine.settled(_reduced(machine, monoid, piece, axes, part))
            for piece, part in zip(machine.read(op.operands), op.operands, strict=True)
        ]
        (found,) = machine.results(op, pieces)
        if machine.classes.in_source(machine.settled(found).node):
            return found
    return made


@handler("reduce_scatter")
def _reduce_scatter(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    axes, monoid = _axes(machine, op), _monoid(op)
    (view,), (type_,) = views, op.signature.operands
    dim = integer(op.signature.attrs["scatter_dimension"])
    made = reduced_over_axes(machine, monoid, view, axes, type_.shape)
    made = _splittable(machine, made, dim, axes)
    return [View(made.node, scattered(made.layout, dim, axes))]


def _splittable(machine: Machine, view: View, dim: int, axes: Sequence[int]) -> View:
    """A value whose dimension can be cut into a tile for each device of a group."""
    held = view.layout.local[dim]
    part = size_of(held) // math.prod(machine.sizes[axis] for axis in axes)
    try:
        split_off(held, part)
    except Unreadable:
        return along_one(machine.classes, view, dim)
    return view


@handler("all_to_all")
def _all_to_all(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """Each device keeps its part of one dimension, and gathers along another."""
    axes, attrs = _axes(machine, op), op.signature.attrs
    split, along = (integer(attrs[f"{n}_dimension"]) for n in ("split", "concat"))
    view = _splittable(machine, views[0], split, axes)
    layout = view.layout
    moved = [digit for axis in axes for digit in layout.axes[axis]]
    local, left = list(layout.local), list(layout.axes)
    sizes = [machine.sizes[axis] for axis in axes]
    tile, part = split_off(local[split], size_of(local[split]) // math.prod(sizes))
    local[split] = digits(tile)
    for axis, size in reversed([*zip(axes, sizes, strict=True)]):
        taken, part = split_off(part, size)
        left[axis] = digits(taken)
    local[along] = digits((*moved, *local[along]))
    return [View(view.node, DigitLayout(tuple(local), tuple(left), layout.tables))]
