"""A shard_map inside the model, as the function of whole tensors that it is.

Its body is a device-local program over the mesh that it was written for. It is read
like one: its arguments are tiles of whole tensors by its in_shardings, its collectives
are what collectives are, and its results are tiles, by its out_shardings, of whole
tensors. These have classes like others of the source; how devices come to hold them,
and whether it is in the same steps, is not asked.
"""

from __future__ import annotations

import re

from partir.ir.attributes import MESH, names, shardings
from partir.ir.core import Lambda, Op, Program, Region
from partir.ir.source import Location
from partir.ir.types import TensorType
from partir.verify.devices.held import given_in_tiles, put_together
from partir.verify.layouts.groups import axes_of
from partir.verify.layouts.layout import Unreadable, View, size_of
from partir.verify.layouts.spread import has_garbage
from partir.verify.machine.machine import Machine, Unknown, handler

_CONTROL = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})
_AXIS = re.compile(r"([^=,]+)=(\d+)")


@handler("sdy.manual_computation")
def _manual(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """Whole tensors in, whole tensors out; between them, devices."""
    if machine.sizes or machine.classes.source is not None:
        raise Unreadable("a shard_map inside of a device-local program")
    attrs, (body,) = op.signature.attrs, op.signature.lambdas
    manual = names(attrs["manual_axes"])
    inner = _devices(machine, attrs[MESH], body)
    machine.classes.zeros = True
    ins, outs = (_tilings(attrs[f"{way}_shardings"], manual) for way in ("in", "out"))
    for value, view, type_, tiling in zip(
        body.arguments, views, op.signature.operands, ins, strict=True
    ):
        given = given_in_tiles(inner, view, type_, tiling)
        if isinstance(given, Unknown):
            raise Unreadable(given.reason)
        if tuple(map(size_of, given.layout.local)) != body.types[value].shape:
            raise Unreadable("a shard_map whose tiles have other shapes")
        inner.env[value] = given
    _stays_on(inner, manual)
    inner.run(inner.program.body)
    return [
        _whole(inner, value, type_, tiling)
        for value, type_, tiling in zip(
            inner.program.body.results, op.signature.results, outs, strict=True
        )
    ]


def _devices(machine: Machine, mesh: str, body: Lambda) -> Machine:
    """A machine that runs the body on the devices of its mesh."""
    axes = _AXIS.findall(mesh)
    program = _as_program(body)
    return Machine(
        machine.classes,
        program,
        tuple(name for name, _ in axes),
        tuple(int(size) for _, size in axes),
        loops=machine.loops,
    )


def _tilings(text: str, manual: tuple[str, ...]) -> list[list[list[str]]]:
    """Per value and dimension, the manual axes that tile it."""
    if ":(" in text:
        raise Unreadable("a shard_map over a part of an axis")
    return [[[a for a in dim if a in manual] for dim in one] for one in shardings(text)]


def _stays_on(inner: Machine, manual: tuple[str, ...]) -> None:
    """Collectives are over the axes of the shard_map: of others, it knows nothing."""
    for op in inner.program.ops:
        groups = op.signature.attrs.get("replica_groups")
        if groups is None:
            continue
        over = axes_of(groups, inner.names, inner.sizes)
        if any(inner.names[axis] not in manual for axis in over):
            raise Unreadable("a collective over an axis that its shard_map is not over")


def _whole(
    inner: Machine, value: int, type_: TensorType, tiling: list[list[str]]
) -> View:
    """A result, if all that it is made of is known at every place of every device."""
    for known in inner.env.values():
        if isinstance(known, View) and has_garbage(known.layout):
            raise Unreadable("a shard_map with values that are not known everywhere")
    (view,) = inner.read([value])
    made = put_together(inner, view, tiling)
    if tuple(map(size_of, made.layout.local)) != type_.shape:
        raise Unreadable("a shard_map whose results have other shapes")
    return made


def _as_program(body: Lambda) -> Program:
    """A closed region as a program, loops and branches with regions of it."""
    reader = _Flat()
    region = reader.region(body)
    return Program(
        name="shard_map",
        types=tuple(reader.types),
        ops=tuple(op for op in reader.ops if op is not None),
        body=region,
        arguments=(),
        results=(),
    )


class _Flat:
    """Numbers the values of regions inside each other."""

    def __init__(self) -> None:
        self.types: list[TensorType] = []
        self.ops: list[Op | None] = []

    def region(self, body: Lambda) -> Region:
        first = len(self.types)
        self.types += body.types
        made: list[int] = []
        for op in body.ops:
            index = len(self.ops)
            made.append(index)
            self.ops.append(None)
            control = op.kind in _CONTROL
            inside = op.signature.lambdas if control else ()
            regions = tuple(map(self.region, inside))
            self.ops[index] = Op(
                op.signature,
                tuple(first + value for value in op.operands),
                tuple(first + value for value in op.results),
                Location(),
                regions,
            )
        arguments = tuple(first + value for value in body.arguments)
        results = tuple(first + value for value in body.results)
        return Region(arguments, tuple(made), results)
