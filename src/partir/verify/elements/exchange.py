"""Collectives: what devices get of what others have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from partir.ir.attributes import integer
from partir.ir.core import Op
from partir.verify.classes.monoids import keeps_type, monoid_of
from partir.verify.elements.alone import Elements
from partir.verify.elements.cases import GARBAGE
from partir.verify.elements.lockstep import Lockstep, OnDevices, together
from partir.verify.elements.moving import numbered
from partir.verify.elements.rings import Integers, ring_of
from partir.verify.layouts.groups import axes_of, dense, group_text, names_devices
from partir.verify.layouts.layout import Unreadable


def _groups(state: Lockstep, op: Op) -> Iterator[list[int]]:
    text = group_text(op.signature)
    if "axis_ref" in text:
        axes = axes_of(text, state.names, state.sizes)
        grid = np.arange(len(state.devices)).reshape(state.sizes)
        others = [a for a in range(grid.ndim) if a not in axes]
        count = math.prod(state.sizes[a] for a in axes)
        found = grid.transpose([*others, *axes]).reshape(-1, count).tolist()
    else:
        found = dense(text).tolist()
    if sorted(d for group in found for d in group) != list(state.devices):
        raise Unreadable("groups that leave out devices")
    yield from found


def _in_groups(
    state: Lockstep,
    op: Op,
    value: int,
    make: Callable[[list[Elements]], list[Elements]],
) -> OnDevices:
    """What each device gets of what its group has."""
    held, made = state.env[value], [[] for _ in state.devices]  # type: OnDevices, OnDevices
    for group in _groups(state, op):
        state.spend(op, len(group))
        for device, part in zip(group, make([held[d] for d in group]), strict=True):
            made[device] = part
    return made


@together("all_gather")
def _all_gather(state: Lockstep, op: Op) -> list[OnDevices]:
    dim = integer(op.signature.attrs["all_gather_dim"])

    def gathered(type_shape: tuple[int, ...], held: list[Elements]) -> list[Elements]:
        whole = _joined(held, type_shape, dim)
        return [whole] * len(held)

    return [
        _in_groups(state, op, v, lambda h, s=t.shape: gathered(s, h))  # type: ignore[misc]
        for v, t in zip(op.operands, op.signature.operands, strict=True)
    ]


def _joined(held: list[Elements], shape: tuple[int, ...], dim: int) -> Elements:
    order = np.concatenate(numbered([shape] * len(held)), dim).reshape(-1).tolist()
    flat = [one for part in held for one in part]
    return [flat[place] for place in order]


def _parts(held: Elements, shape: tuple[int, ...], dim: int, count: int) -> OnDevices:
    pieces = np.split(numbered([shape])[0], count, dim)
    return [[held[place] for place in p.reshape(-1).tolist()] for p in pieces]


def _reduced(state: Lockstep, op: Op, held: list[Elements], dtype: str) -> Elements:
    monoid = monoid_of(op.signature.lambdas[0])
    if monoid is None or not keeps_type(op.signature):
        raise Unreadable("a reduction over devices that has no name")
    total, ring = state.ops.monoids.total, ring_of(dtype)
    return [total(monoid, dtype, ring, one) for one in zip(*held, strict=True)]


@together("all_reduce")
def _all_reduce(state: Lockstep, op: Op) -> list[OnDevices]:
    return [
        _in_groups(
            state,
            op,
            value,
            lambda held, t=type_: [_reduced(state, op, held, t.dtype)] * len(held),  # type: ignore[misc]
        )
        for value, type_ in zip(op.operands, op.signature.operands, strict=True)
    ]


@together("reduce_scatter")
def _reduce_scatter(state: Lockstep, op: Op) -> list[OnDevices]:
    dim = integer(op.signature.attrs["scatter_dimension"])
    (type_,) = op.signature.operands

    def make(held: list[Elements]) -> list[Elements]:
        whole = _reduced(state, op, held, type_.dtype)
        return _parts(whole, type_.shape, dim, len(held))

    return [_in_groups(state, op, op.operands[0], make)]


@together("all_to_all")
def _all_to_all(state: Lockstep, op: Op) -> list[OnDevices]:
    attrs, types = op.signature.attrs, op.signature.operands
    split, along = (integer(attrs[f"{n}_dimension"]) for n in ("split", "concat"))

    def exchanged(shape: tuple[int, ...], held: list[Elements]) -> list[Elements]:
        parts = [_parts(one, shape, split, len(held)) for one in held]
        cut = list(shape)
        cut[split] //= len(held)
        return [_joined([*got], tuple(cut), along) for got in zip(*parts, strict=True)]

    return [
        _in_groups(state, op, v, lambda h, s=t.shape: exchanged(s, h))  # type: ignore[misc]
        for v, t in zip(op.operands, types, strict=True)
    ]


@together("collective_permute")
def _permute(state: Lockstep, op: Op) -> list[OnDevices]:
    """Who gets nothing has garbage, as sources without a shard_map ask for no zeros."""
    if not names_devices(op.signature.attrs):
        raise Unreadable("pairs that do not name devices")
    pairs = dense(op.signature.attrs["source_target_pairs"]).tolist()
    sources = {target: source for source, target in pairs}
    if len(sources) != len(pairs) or len({*sources.values()}) != len(pairs):
        raise Unreadable("devices that send or get twice")
    (type_,) = op.signature.results
    nothing: Elements = [GARBAGE] * math.prod(type_.shape)
    held = state.env[op.operands[0]]
    return [[held[sources[d]] if d in sources else nothing for d in state.devices]]


@together("partition_id")
def _partition_id(state: Lockstep, op: Op) -> list[OnDevices]:
    ring = ring_of(op.signature.results[0].dtype)
    assert isinstance(ring, Integers)
    return [[[ring.number(device)] for device in state.devices]]
