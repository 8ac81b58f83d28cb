"""What loops carry: symbols for it, and one turn of a loop on values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from partir.ir.core import Op
from partir.ir.types import TensorType
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.constancy import Place
from partir.verify.layouts.layout import Digit, DigitLayout, Digits, View, repeated
from partir.verify.machine.machine import Machine

Axes = tuple[int, ...]


class LoopPair(NamedTuple):
    """A loop of the source, all of it as whole tensors.

    In a shard_map it is what the devices of a mesh hold: `names` and `sizes` are of its
    axes.
    """

    inits: tuple[View, ...]
    carried: tuple[View, ...]
    condition: View
    body: tuple[View, ...]
    results: tuple[View, ...]
    types: tuple[TensorType, ...]
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    number: int = 0  # among the source's loops

    def stands_in(self, loops: Sequence[object]) -> bool:
        """Whether it is one of these still: a turn tried anew has loops of its own."""
        return self.number < len(loops) and loops[self.number] is self


def symbols(
    machine: Machine,
    kind: str,
    key: object,
    types: Sequence[TensorType],
    constant: frozenset[Place] = frozenset(),
    over: Sequence[Axes] = (),
) -> list[View]:
    """A class for each value, without the dimensions along which it is constant.

    `over` are axes along which devices hold different values: more dimensions.
    """
    made = []
    for number, type_ in enumerate(types):
        if 0 in type_.shape:
            made.append(machine.empty(type_))
            continue
        axes = over[number] if over else ()
        kept = [
            size > 1 and (number, dim) not in constant
            for dim, size in enumerate(type_.shape)
        ]
        sizes = (
            *(machine.sizes[axis] for axis in axes),
            *itertools.compress(type_.shape, kept),
        )
        term = ClassTerm(
            kind, key, (), (), (), new=sizes, dtype=type_.dtype, result=number
        )
        places: list[Digits] = [repeated(size) for size in machine.sizes]
        for place, axis in enumerate(axes):
            places[axis] = (Digit(place, 1, machine.sizes[axis]),)
        numbers = itertools.count(len(axes))
        local = tuple(
            (Digit(next(numbers), 1, size),) if own else repeated(size)
            for size, own in zip(type_.shape, kept, strict=True)
        )
        made.append(View(machine.classes.of(term), DigitLayout(local, tuple(places))))
    return made


def turn(
    machine: Machine, op: Op, carried: Sequence[View], loop: int
) -> tuple[View, list[View]]:
    """One turn: the condition, and the values for the next one.

    `loop` is the source's number for it.
    """
    made = []
    for number, region in enumerate(op.regions):
        machine.env.update(zip(region.arguments, carried, strict=True))
        with machine.inside(("loop", loop, number)):
            machine.run(region)
        made.append(machine.read(region.results))
    (condition,), body = made
    return condition, body
