"""Running a program on formulas, on all devices at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from partir.ir.attributes import CONSTRAINT, integer
from partir.ir.core import Op, Program, Region, Signature
from partir.verify.elements.cases import FALSE, GARBAGE, TRUE, Cases, Scalar
from partir.verify.elements.constants import constant, number
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.folds import (
    reduce,
    reduce_window,
    select_and_scatter,
    sort,
    top_k,
)
from partir.verify.elements.lookups import (
    dynamic_slice,
    dynamic_update_slice,
    gather,
    scatter,
)
from partir.verify.elements.moving import numbered, places
from partir.verify.elements.ordering import ordering_of
from partir.verify.elements.products import product
from partir.verify.elements.rings import Integers, ring_of
from partir.verify.groups import axes_of, dense, names_devices
from partir.verify.layout import Unreadable
from partir.verify.monoids import keeps_type, monoid_of

Elements = list[Scalar]
OnDevices = list[Elements]  # of each device; equal ones may be one object
_SAME = frozenset({"stablehlo.optimization_barrier", CONSTRAINT})
_MOST_STEPS = 1 << 10  # of a loop


class TooLarge(Unreadable):
    """More elements than anybody would wait for."""


class Lockstep:
    """What is known of a program's values, on each device."""

    def __init__(
        self,
        ops: Elementwise,
        program: Program,
        names: Sequence[str],
        sizes: Sequence[int],
        most: int,
    ) -> None:
        """`most` elements are computed in all."""
        self.ops, self.program, self.most = ops, program, most
        self.names, self.sizes = tuple(names), tuple(sizes)
        self.devices = range(math.prod(sizes))
        self.env: dict[int, OnDevices] = {}

    def run(self, region: Region, needed: frozenset[int] | None = None) -> None:
        """Run a block; of its ops, those with a result that is needed."""
        for index in region.ops:
            op = self.program.ops[index]
            if needed is None or not needed.isdisjoint(op.results):
                self._step(op)

    def _step(self, op: Op) -> None:
        run = _CONTROL.get(op.kind) or _COLLECTIVES.get(op.kind)
        made = run(self, op) if run is not None else self._alone(op)
        for value, held in zip(op.results, made, strict=True):
            self.env[value] = held

    def spend(self, op: Op, devices: int = 1) -> None:
        """Count elements; stop before there are too many."""
        types = (*op.signature.results, *op.signature.operands)
        self.most -= devices * max(math.prod(t.shape) for t in types)
        if op.kind == "stablehlo.dot_general" or op.kind == "stablehlo.convolution":
            shapes = [math.prod(t.shape) for t in op.signature.operands]
            self.most -= devices * math.isqrt(
                math.prod(shapes) * math.prod(op.signature.results[0].shape)
            )
        if self.most < 0:
            raise TooLarge("too many elements to look at each")

    def _alone(self, op: Op) -> list[OnDevices]:
        """An op that devices run for themselves; once for those that do the same."""
        known: dict[tuple[int, ...], list[Elements]] = {}
        found = []
        for device in self.devices:
            given = [self.env[value][device] for value in op.operands]
            key = tuple(map(id, given))
            if key not in known:
                self.spend(op)
                known[key] = evaluated(self.ops, op.signature, given)
            found.append(known[key])
        return [[held[n] for held in found] for n in range(len(op.results))]


def evaluated(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> list[Elements]:
    """An op's results on one device."""
    moved = places(signature)
    if moved is not None:
        flat = [one for held in given for one in held] if len(given) > 1 else given[0]
        return [[flat[place] for place in moved]]
    if signature.kind in _SAME:
        return list(given)
    if signature.name == "bitcast_convert":
        return [ordering_of(ops).bitcast(signature, given)]
    run = ops.run(signature)
    if run is not None:
        count = math.prod(signature.results[0].shape)
        wide = [
            held * count if not t.shape and len(signature.results[0].shape) else held
            for held, t in zip(given, signature.operands, strict=True)
        ]
        return [list(map(run, *wide))]
    if signature.kind in _SEVERAL:
        return _SEVERAL[signature.kind](ops, signature, given)
    if signature.kind in _ONE:
        return [_ONE[signature.kind](ops, signature, given)]
    raise Unreadable(f"{signature.name} is not written out element by element")


def _constant(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    (type_,) = signature.results
    if not type_.tensor:
        raise Unreadable("a constant that is no tensor")
    return constant(ops, signature.attrs["value"], type_.shape, type_.dtype)


def _iota(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    (type_,) = signature.results
    dim = integer(signature.attrs["iota_dimension"])
    shape = [1] * len(type_.shape)
    shape[dim] = type_.shape[dim]
    counted = np.broadcast_to(np.arange(shape[dim]).reshape(shape), type_.shape)
    convert = ops.convert("i64", type_.dtype)
    return [convert(number(ops, n, "i64")) for n in counted.reshape(-1).tolist()]


_ONE: Mapping[str, Callable[[Elementwise, Signature, Sequence[Elements]], Elements]] = {
    "stablehlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.dot_general": product,
    "stablehlo.convolution": product,
    "stablehlo.gather": gather,
    "stablehlo.scatter": scatter,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.select_and_scatter": select_and_scatter,
}
_SEVERAL: Mapping[
    str, Callable[[Elementwise, Signature, Sequence[Elements]], list[Elements]]
] = {
    "stablehlo.reduce": reduce,
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.sort": sort,
    "chlo.top_k": top_k,
}


# Control flow


def _while(state: Lockstep, op: Op) -> list[OnDevices]:
    """Step by step, as long as all devices go on; if that is not known, as if so.

    Where a loop may end, its values there are kept, and chosen afterwards.
    """
    condition, body = op.regions
    held = [state.env[value] for value in op.operands]
    ends: list[tuple[Scalar, list[OnDevices]]] = []
    for _ in range(_MOST_STEPS):
        state.env.update(zip(condition.arguments, held, strict=True))
        state.run(condition)
        goes_on = _way(state, condition.results[0])
        if goes_on == FALSE:
            return _chosen_end(state, op, held, ends)
        if goes_on != TRUE:
            ends.append((goes_on, held))
        state.env.update(zip(body.arguments, held, strict=True))
        state.run(body)
        held = [state.env[value] for value in body.results]
    raise TooLarge("a loop of too many steps")


def _way(state: Lockstep, value: int) -> Scalar:
    """A truth that all devices have: known, or by a name of its own."""
    flat = state.ops.algebra.flat
    found = {flat(one, ring_of("i1")) for (one,) in state.env[value]}
    if len(found) != 1 or GARBAGE in found:
        raise Unreadable("devices that do not go the same way")
    (one,) = found
    return state.ops.algebra.truth("goes on", one) if one[0] else one


def _chosen_end(
    state: Lockstep,
    op: Op,
    held: list[OnDevices],
    ends: Sequence[tuple[Scalar, list[OnDevices]]],
) -> list[OnDevices]:
    for goes_on, before in reversed(ends):
        held = _chosen(state, op, goes_on, held, before)
    return held


def _chosen(
    state: Lockstep, op: Op, which: Scalar, new: list[OnDevices], old: list[OnDevices]
) -> list[OnDevices]:
    """One of two results of all devices, by a truth that they have in common."""
    made = []
    for type_, *both in zip(op.signature.results, new, old, strict=True):
        select = state.ops.select(type_.dtype)
        state.spend(op, len(state.devices))
        made.append(
            [
                x
                if x is y
                else [select(which, a, b) for a, b in zip(x, y, strict=True)]
                for x, y in zip(*both, strict=True)
            ]
        )
    return made


def _agreed(state: Lockstep, value: int) -> int:
    """A truth or number that is known, and the same on all devices."""
    found = {one for (one,) in state.env[value] if one is not GARBAGE}
    if len(found) != 1 or any(one is GARBAGE for (one,) in state.env[value]):
        raise Unreadable("devices that do not go the same way")
    (one,) = found
    ring = ring_of(state.program.types[value].dtype)
    known = None
    if isinstance(ring, Integers) and type(one) is not Cases:
        known = ring.known(one)
    if known is None:
        raise Unreadable("a way that depends on what is not known")
    return known


def _case(state: Lockstep, op: Op) -> list[OnDevices]:
    """The branch that is known to be taken, or each where it would be."""
    which = op.operands[0]
    branches = op.regions if op.kind == "stablehlo.case" else op.regions[::-1]
    try:
        taken = _agreed(state, which)
    except Unreadable:
        return _each(state, op, branches)
    last = len(branches) - 1
    branch = branches[taken if 0 <= taken <= last else last]
    state.run(branch)
    return [state.env[value] for value in branch.results]


def _each(state: Lockstep, op: Op, branches: Sequence[Region]) -> list[OnDevices]:
    which = state.env[op.operands[0]]
    if any(one != which[0] for one in which[1:]):
        raise Unreadable("devices that do not go the same way")
    made = []
    for branch in branches:
        state.run(branch)
        made.append([state.env[value] for value in branch.results])
    dtype, ops = state.program.types[op.operands[0]].dtype, state.ops
    compare = _equal_to(ops, dtype)
    found = made[-1]
    for number_, results in enumerate(made[:-1]):
        found = _chosen(state, op, compare(which[0][0], number_), results, found)
    return found


def _equal_to(ops: Elementwise, dtype: str) -> Callable[[Scalar, int], Scalar]:
    from partir.verify.elements.integers import compared

    ring, truths = ring_of(dtype), ring_of("i1")
    assert isinstance(ring, Integers)

    def run(x: Scalar, count: int) -> Scalar:
        def plain(one: Scalar) -> Scalar:
            if one is GARBAGE:
                return GARBAGE
            return compared(ops.algebra, ring, "EQ", one, ring.number(count))

        return ops.algebra.apply(plain, truths, (ring,), x)

    return run


_CONTROL: Mapping[str, Callable[[Lockstep, Op], list[OnDevices]]] = {
    "stablehlo.while": _while,
    "stablehlo.case": _case,
    "stablehlo.if": _case,
}


# Collectives


def _groups(state: Lockstep, op: Op) -> Iterator[list[int]]:
    attrs = op.signature.attrs
    named = op.signature.name == "all_to_all" or "use_global_device_ids" in attrs
    if not named or not names_devices(attrs):
        raise Unreadable("groups that do not name devices")
    text = attrs["replica_groups"]
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


def _reduce_scatter(state: Lockstep, op: Op) -> list[OnDevices]:
    dim = integer(op.signature.attrs["scatter_dimension"])
    (type_,) = op.signature.operands

    def make(held: list[Elements]) -> list[Elements]:
        whole = _reduced(state, op, held, type_.dtype)
        return _parts(whole, type_.shape, dim, len(held))

    return [_in_groups(state, op, op.operands[0], make)]


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


def _permute(state: Lockstep, op: Op) -> list[OnDevices]:
    """Who gets nothing has zeros."""
    if not names_devices(op.signature.attrs):
        raise Unreadable("pairs that do not name devices")
    pairs = dense(op.signature.attrs["source_target_pairs"]).tolist()
    sources = {target: source for source, target in pairs}
    if len(sources) != len(pairs) or len({*sources.values()}) != len(pairs):
        raise Unreadable("devices that send or get twice")
    (type_,) = op.signature.results
    zeros = [ring_of(type_.dtype).zero] * math.prod(type_.shape)
    held = state.env[op.operands[0]]
    return [[held[sources[d]] if d in sources else zeros for d in state.devices]]


def _partition_id(state: Lockstep, op: Op) -> list[OnDevices]:
    ring = ring_of(op.signature.results[0].dtype)
    assert isinstance(ring, Integers)
    return [[[ring.number(device)] for device in state.devices]]


_COLLECTIVES: Mapping[str, Callable[[Lockstep, Op], list[OnDevices]]] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_permute": _permute,
    "stablehlo.partition_id": _partition_id,
}
