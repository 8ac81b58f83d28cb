"""Operands of an op, in whatever layouts, as references over common index variables.

Labels name what an op's equation shares between operands and results: the einsum
letters of a product, the dimensions of an elementwise op. Mesh axes are labels of every
operand. A label's places are cut as finely as some operand needs; each place is a
variable. What no operand depends on is no variable: it repeats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from partir.verify.classes.rows import RowTable
from partir.verify.classes.terms import BOUND, FREE, Dims, Use, Variable, Where
from partir.verify.layouts.layout import (
    REPEATED,
    Digit,
    DigitLayout,
    Digits,
    Unreadable,
    digits,
    repeated,
    size_of,
)

NO_TABLES: Mapping[int, RowTable] = MappingProxyType({})

Label = Any  # whatever names a dimension within one equation; hashable


@dataclass(frozen=True, eq=False)
class Equation:
    """How an op's local dimensions belong together.

    Labels that no result has are bound, unless they are special. A result's labels that
    no operand has are new dimensions. Labels of a group are special together: the op
    runs along all of them, the first one being the major one.
    """

    kind: str
    operands: tuple[tuple[Label, ...], ...]
    results: tuple[tuple[Label, ...], ...]
    attrs: Hashable = ()
    special: tuple[Label, ...] = ()
    groups: tuple[tuple[Label, ...], ...] = ()
    commutes: bool = False
    bound_axes: frozenset[int] = field(default_factory=frozenset)

    @cached_property
    def labels(self) -> tuple[Hashable, ...]:
        """All that decides what belongs together, whatever the op computes."""
        ends = self.operands, self.results
        return (*ends, self.special, self.groups, self.bound_axes)

    def swapped(self) -> Equation:
        """The same with its two operands the other way round."""
        return replace(self, operands=self.operands[::-1])


class _Place(NamedTuple):
    label: Label
    stride: int
    size: int


def axis_label(axis: int) -> Label:
    """The label of a mesh axis."""
    return ("axis", axis)


class Alignment:
    """References of all operands over common variables, before they are numbered."""

    def __init__(self, equation: Equation, layouts: Sequence[DigitLayout]) -> None:
        """Cut labels into places, and write every operand over them."""
        self.equation, self.replicas = equation, layouts[0].axes
        labelled = [
            _labelled(layout, labels)
            for layout, labels in zip(layouts, equation.operands, strict=True)
        ]
        self.places = _places(labelled)
        self.refs = [
            _dims(digits_, self.places, layout)
            for digits_, layout in zip(labelled, layouts, strict=True)
        ]
        self.use = _use(equation, self.places, self.refs)

    @property
    def bound(self) -> frozenset[Variable]:
        """Variables that are reduced over."""
        return frozenset(v for v, role in self.use.roles.items() if role == BOUND)

    def repeats(self) -> int:
        """How often bound labels repeat what does not depend on them."""
        used = {place for dims in self.refs for dim in dims for place in dim}
        unused = (v for v in self.bound if v not in used)
        return math.prod(self.use.sizes[v] for v in unused)

    def result(
        self,
        number: int,
        shape: Sequence[int],
        where: Where,
        free: int,
        tables: Mapping[int, RowTable] = NO_TABLES,
    ) -> tuple[DigitLayout, tuple[int, ...]]:
        """A result's layout over the dimensions that `where` says; its new sizes."""
        local: list[Digits] = []
        new: list[int] = []
        for label, size in zip(self.equation.results[number], shape, strict=True):
            if label in self.places:
                local.append(_shown(self.places[label], where))
                continue
            local.append(digits((Digit(free + len(new), 1, size),)))
            new += [size] if size > 1 else []
        axes = tuple(
            repeated(size_of(held))
            if axis in self.equation.bound_axes
            else _shown(self.places[axis_label(axis)], where)
            for axis, held in enumerate(self.replicas)
        )
        kept = tuple(sorted(tables.items(), key=_dimension))
        return DigitLayout(tuple(local), axes, kept), tuple(new)


def _labelled(layout: DigitLayout, labels: Sequence[Label]) -> dict[Label, Digits]:
    found: dict[Label, Digits] = dict(zip(labels, layout.local, strict=True))
    for axis, held in enumerate(layout.axes):
        found[axis_label(axis)] = held
    return found


def _places(operands: Sequence[dict[Label, Digits]]) -> dict[Label, tuple[_Place, ...]]:
    """Each label cut where a digit of some operand begins or ends, major first."""
    cuts: dict[Label, set[int]] = {}
    totals: dict[Label, int] = {}
    for operand in operands:
        for label, items in operand.items():
            found, stride = cuts.setdefault(label, {1}), 1
            for digit in reversed(items):
                end = stride * digit.size
                if digit.dim != REPEATED:
                    found |= {stride, end}
                stride = end
            if not stride:
                raise Unreadable("a dimension without elements")
            if totals.setdefault(label, stride) != stride:
                raise Unreadable(f"sizes {totals[label]} and {stride} side by side")
    return {
        label: _between(label, sorted({*found, totals[label]}))
        for label, found in cuts.items()
    }


def _between(label: Label, ends: Sequence[int]) -> tuple[_Place, ...]:
    made = []
    for low, high in itertools.pairwise(ends):
        if high % low:
            raise Unreadable("dimensions that are split at different places")
        made.append(_Place(label, low, high // low))
    return tuple(reversed(made))


def _dims(
    operand: dict[Label, Digits],
    places: dict[Label, tuple[_Place, ...]],
    layout: DigitLayout,
) -> Dims:
    """For each dimension of the operand's class, its places, major first."""
    found: dict[int, list[tuple[int, _Place]]] = {dim: [] for dim, _ in layout.tables}
    for label, items in operand.items():
        start = 1
        for digit in reversed(items):
            end = start * digit.size
            if digit.dim != REPEATED:
                held = found.setdefault(digit.dim, [])
                for place in places[label]:
                    if start <= place.stride < end:
                        held.append((digit.stride * (place.stride // start), place))
            start = end
    made = []
    for dim in range(max(found, default=-1) + 1):
        held = found.get(dim, [])
        if len(held) > 1:
            held.sort(key=_by_stride)
        made.append(tuple([place for _, place in held]))
    return tuple(made)


def _dimension(item: tuple[int, RowTable]) -> int:
    return item[0]


def _by_stride(item: tuple[int, _Place]) -> int:
    return -item[0]


def _use(
    equation: Equation,
    places: dict[Label, tuple[_Place, ...]],
    refs: Sequence[Dims],
) -> Use:
    kept = {label for labels in equation.results for label in labels}
    kept |= {
        axis_label(axis)
        for axis in range(len(places))
        if axis not in equation.bound_axes
    }
    sizes, roles = {}, {}
    used = {place for dims in refs for dim in dims for place in dim}
    groups = (*((label,) for label in equation.special), *equation.groups)
    along = {label: group for group in groups for label in group}
    for label, cut in places.items():
        role: Hashable = FREE if label in kept else BOUND
        role = along.get(label, role)
        for place in cut:
            sizes[place], roles[place] = place.size, role
    specials = [
        _along([p for label in group for p in places.get(label, ())], used)
        for group in groups
        if group in equation.groups or group[0] in places
    ]
    return Use(sizes, roles, specials)


def _along(
    order: Sequence[_Place], used: Set[Variable]
) -> list[Variable | tuple[str, int]]:
    """Places that an op runs along; those that nothing depends on repeat."""
    found: list[Variable | tuple[str, int]] = []
    times = 1
    for place in order:
        if place not in used:
            times *= place.size
            continue
        found += [("repeated", times), place] if times > 1 else [place]
        times = 1
    return [*found, ("repeated", times)] if times > 1 else found


def _shown(places: Sequence[_Place], where: Where) -> Digits:
    found = []
    for place in places:
        dim, stride = where.get(place, (REPEATED, 0))
        found.append(Digit(dim, stride, place.size))
    return digits(found)
