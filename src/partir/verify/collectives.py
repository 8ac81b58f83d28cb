"""What collectives mean: they move digits between axes and dimensions, or reduce."""

from __future__ import annotations

import math

import numpy as np

from partir.ir.attributes import integer
from partir.ir.core import Op
from partir.verify.groups import axes_of, dense
from partir.verify.layout import (
    Digits,
    Layout,
    Unreadable,
    View,
    depends_on,
    digits,
    gathered,
    repeated,
    scattered,
    size_of,
    split_off,
)
from partir.verify.machine import Machine, handler
from partir.verify.monoids import monoid_of
from partir.verify.reductions import reduced_over_axes


def _axes(machine: Machine, op: Op) -> tuple[int, ...]:
    attrs = op.signature.attrs
    if op.signature.name != "all_to_all" and "use_global_device_ids" not in attrs:
        raise Unreadable("groups that do not name devices")
    key = attrs["replica_groups"]
    if key not in machine.groups:
        machine.groups[key] = axes_of(key, machine.names, machine.sizes)
    return machine.groups[key]


@handler("all_gather")
def _all_gather(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    axes = _axes(machine, op)
    dim = integer(op.signature.attrs["all_gather_dim"])
    return [View(v.node, gathered(v.layout, dim, axes)) for v in views]


def _monoid(op: Op) -> str:
    monoid = monoid_of(op.signature.lambdas[0])
    if monoid is None:
        raise Unreadable("a reduction over devices that has no name")
    return monoid


@handler("all_reduce")
def _all_reduce(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    axes, monoid = _axes(machine, op), _monoid(op)
    return [
        reduced_over_axes(machine, monoid, view, axes, type_.shape)
        for view, type_ in zip(views, op.signature.operands, strict=True)
    ]


@handler("reduce_scatter")
def _reduce_scatter(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    axes, monoid = _axes(machine, op), _monoid(op)
    (view,), (type_,) = views, op.signature.operands
    dim = integer(op.signature.attrs["scatter_dimension"])
    made = reduced_over_axes(machine, monoid, view, axes, type_.shape)
    return [View(made.node, scattered(made.layout, dim, axes))]


@handler("all_to_all")
def _all_to_all(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """Each device keeps its part of one dimension, and gathers along another."""
    axes, attrs = _axes(machine, op), op.signature.attrs
    split, along = (integer(attrs[f"{n}_dimension"]) for n in ("split", "concat"))
    (view,) = views
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
    return [View(view.node, Layout(tuple(local), tuple(left)))]


@handler("collective_permute")
def _permute(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """Devices that hand on all they hold: their digits change axes."""
    pairs = dense(op.signature.attrs["source_target_pairs"])
    (view,) = views
    count = math.prod(machine.sizes)
    used = [a for a in range(len(machine.sizes)) if depends_on(view.layout, a)]
    sources = np.full(count, -1)
    sources[pairs[:, 1]] = pairs[:, 0]
    if (sources < 0).any():
        raise Unreadable("devices that receive nothing")
    axes = list(view.layout.axes)
    for axis, size in enumerate(machine.sizes):
        axes[axis] = repeated(size)
    moved = _followed(machine.sizes, sources, used, view.layout.axes)
    for axis, held in moved.items():
        axes[axis] = held
    return [View(view.node, Layout(view.layout.local, tuple(axes)))]


def _followed(
    sizes: tuple[int, ...],
    sources: np.ndarray,
    used: list[int],
    held: tuple[Digits, ...],
) -> dict[int, Digits]:
    """For each axis the digits that a device gets: its own digits name the source's."""
    here = _digits_of_places(sizes, np.arange(sources.size))
    there = _digits_of_places(sizes, sources)
    found: dict[int, list[tuple[int, Digits]]] = {}
    for (axis, stride, size), column in there.items():
        if axis not in used:
            continue
        own = [
            place
            for place, values in here.items()
            if place[2] == size and np.array_equal(values, column)
        ]
        if not own:
            raise Unreadable("devices that hand on to others than along mesh axes")
        part = split_off(split_off(held[axis], stride)[1], size)[0]
        found.setdefault(own[0][0], []).append((own[0][1], tuple(part)))
    return {
        axis: digits(
            digit
            for _, part in sorted(parts, key=lambda item: -item[0])
            for digit in part
        )
        for axis, parts in found.items()
        if _complete(parts, sizes[axis])
    }


def _complete(parts: list[tuple[int, Digits]], size: int) -> bool:
    if math.prod(size_of(part) for _, part in parts) != size:
        raise Unreadable("devices that hand on a part of an axis")
    return True


def _digits_of_places(
    sizes: tuple[int, ...], devices: np.ndarray
) -> dict[tuple[int, int, int], np.ndarray]:
    """Coordinates of devices, cut into prime digits: (axis, stride, size)."""
    found = {}
    for axis, column in enumerate(np.unravel_index(devices, sizes)):
        stride, rest = 1, sizes[axis]
        for prime in _primes(rest):
            found[axis, stride, prime] = column // stride % prime
            stride *= prime
    return found


def _primes(number: int) -> list[int]:
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found
