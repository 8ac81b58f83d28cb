"""Columns of indices: of several dimensions at once, one may be shifted by itself.

Devices that tile one of the dimensions that indices address take the indices apart,
column by column, shift the one column, and put all side by side again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from partir.ir.attributes import fields, integer
from partir.ir.core import Op
from partir.verify.layouts.layout import Unreadable, View
from partir.verify.machine.machine import Machine


class Column(NamedTuple):
    """A dimension that indices address, and the value that says where along it."""

    dim: int
    value: int
    joined: Op | None = None  # what puts it beside others
    number: int = 0  # among what is put side by side

    def within(self, machine: Machine, index: View) -> View:
        """All columns, with another one in place of this."""
        if self.joined is None:
            return index
        views = machine.read(self.joined.operands)
        views[self.number] = index
        (made,) = machine.results(self.joined, views)
        return machine.settled(made)


def columns(machine: Machine, op: Op, attr: str, name: str) -> Iterator[Column]:
    """The columns of an op's indices, which are its second operand."""
    numbers = fields(op.signature.attrs[attr])
    addressed, value = numbers.get(name, ()), op.operands[1]
    if len(addressed) == 1:
        yield Column(addressed[0], value)
        return
    vector = numbers.get("index_vector_dim", (0,))[0]
    maker = machine.program.producers.get(value)
    joined = None if maker is None else machine.program.ops[maker]
    if joined is None or joined.signature.name != "concatenate":
        raise Unreadable("indices of several dimensions at once")
    if integer(joined.signature.attrs["dimension"]) != vector:
        raise Unreadable("indices of several dimensions at once")
    place = 0
    for number, type_ in enumerate(joined.signature.operands):
        if type_.shape[vector] == 1:
            yield Column(addressed[place], joined.operands[number], joined, number)
        place += type_.shape[vector]
