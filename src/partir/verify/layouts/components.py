"""Places of operands that tables tie together, and the rows that are read there.

A dimension with a table is read at all of its places at once: these make up one
*component*, together with all that other operands have at the same places. In a term it
is one variable. What the variable's number stands for is a row of every operand that
mentions it: a tuple; or a bag of tuples, where some of the places are reduced over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from partir.verify.classes.rows import GARBAGE, OPEN, Rows, RowTable, as_digits
from partir.verify.classes.terms import BOUND, FREE, Dims, Use, Variable
from partir.verify.layouts.layout import DigitLayout, Unreadable
from partir.verify.layouts.spread import MOST


@dataclass(frozen=True, eq=False)
class Component:
    """Places, free and bound ones, and the row of each mention at every one of them."""

    free: tuple[Variable, ...]
    bound: tuple[Variable, ...]
    mentions: tuple[tuple[int, int], ...]  # operand, dimension of its class
    columns: Rows  # by free place, bound place, mention
    sizes: tuple[int, ...]  # of each mention's dimension

    @property
    def size(self) -> int:
        """How many plain rows a variable has that stands for all mentions."""
        return common_size(self.sizes)

    @property
    def variable(self) -> Variable:
        """What stands for the component in a term."""
        return ("component", self.mentions)

    @property
    def rows(self) -> Rows:
        """The rows of a component with one mention, by free and bound place."""
        if len(self.mentions) > 1:
            raise Unreadable("a reduction along several dimensions at once")
        return self.columns[..., 0]


def common_size(sizes: Iterable[int]) -> int:
    """The size of dimensions that are all as long; of others, and of bags, none."""
    found = {*sizes}
    return max(found.pop(), OPEN) if len(found) == 1 else OPEN


def components(
    layouts: Sequence[DigitLayout], refs: Sequence[Dims], use: Use
) -> list[Component]:
    """All that tables tie together."""
    tables = {
        (ref, dim): table
        for ref, layout in enumerate(layouts)
        for dim, table in layout.tables
    }
    if not tables:
        return []
    groups = [{*refs[ref][dim]} for ref, dim in tables]
    pinned = [key for key in tables if not refs[key[0]][key[1]]]
    every = [
        (number, dim, {*places})
        for number, dims in enumerate(refs)
        for dim, places in enumerate(dims)
        if places
    ]
    before: list[set[Variable]] = []
    while groups != before:  # as long as some grow
        before = groups
        for _, _, places in every:
            groups = _with(groups, places)
    found = [
        _component([p for p in use.sizes if p in group], every, refs, tables, use)
        for group in groups
        if group
    ]
    found += [
        Component(
            (), (), (key,), tables[key].rows.reshape(1, 1, 1), (tables[key].size,)
        )
        for key in pinned
    ]
    return found


def _with(groups: list[set[Variable]], places: set[Variable]) -> list[set[Variable]]:
    """Groups that share a place become one."""
    touched = [group for group in groups if group & places]
    if not touched or (len(touched) == 1 and places <= touched[0]):
        return groups
    joined = set().union(places, *touched)
    return [*(group for group in groups if not group & places), joined]


def _component(
    places: list[Variable],
    every: Sequence[tuple[int, int, set[Variable]]],
    refs: Sequence[Dims],
    tables: dict[tuple[int, int], RowTable],
    use: Use,
) -> Component:
    special = {use.roles[place] for place in places} - {FREE, BOUND}
    if special and len({use.roles[place] for place in places}) > 1:
        raise Unreadable("an op along rows that devices have different ones of")
    free = [place for place in places if use.roles[place] != BOUND]
    bound = [place for place in places if use.roles[place] == BOUND]
    count = math.prod(use.sizes[place] for place in places)
    if count > MOST:
        raise Unreadable("rows in too many places to write out")
    shape = [use.sizes[place] for place in (*free, *bound)]
    mentions = [(ref, dim) for ref, dim, held in every if held <= {*places}]
    columns, sizes = [], []
    for ref, dim in mentions:
        position = _positions([*free, *bound], refs[ref][dim], use)
        table = tables.get((ref, dim))
        rows = position if table is None else table.rows[position]
        size = math.prod(use.sizes[place] for place in refs[ref][dim])
        columns.append(np.broadcast_to(rows, shape))
        sizes.append(size if table is None else table.size)
    width = math.prod(use.sizes[place] for place in bound)
    stacked = np.stack(columns, -1).reshape(-1, width, len(mentions))
    return Component(tuple(free), tuple(bound), tuple(mentions), stacked, tuple(sizes))


def _positions(space: Sequence[Variable], places: Sequence[Variable], use: Use) -> Rows:
    """The position in a dimension, over a component's places."""
    made, stride = np.zeros((1,) * len(space), np.int64), 1
    for place in reversed(places):
        shape = [1] * len(space)
        shape[space.index(place)] = use.sizes[place]
        made = made + stride * np.arange(use.sizes[place]).reshape(shape)
        stride *= use.sizes[place]
    return made


def tied(
    refs: Sequence[Dims], use: Use, parts: Sequence[Component], sizes: Sequence[int]
) -> tuple[list[Dims], Use]:
    """References with one variable for each component, of these sizes."""
    names = {key: part.variable for part in parts for key in part.mentions}
    made = [
        tuple(
            (names[ref, dim],) if (ref, dim) in names else places
            for dim, places in enumerate(dims)
        )
        for ref, dims in enumerate(refs)
    ]
    gone = {place for part in parts for place in (*part.free, *part.bound)}
    plain = {place: size for place, size in use.sizes.items() if place not in gone}
    roles = {place: role for place, role in use.roles.items() if place not in gone}
    specials = [list(items) for items in use.specials]
    for part, size in zip(parts, sizes, strict=True):
        plain[part.variable] = size
        roles[part.variable] = use.roles[part.free[0]] if part.free else FREE
        for items in specials:
            _in_order(items, part, size, use.sizes)
    return made, Use(plain, roles, specials)


def _in_order(
    items: list[Variable], part: Component, size: int, sizes: Mapping[Variable, int]
) -> None:
    """A special dimension whose rows are a component's: they, too, tell it apart.

    So does how its places are mixed with those of other dimensions.
    """
    if not any(place in part.free for place in items):
        return
    rows = part.rows[:, 0]
    if (rows == GARBAGE).any():
        raise Unreadable("an op along rows that are not all there")
    own = [(part.free.index(p), sizes[p]) if p in part.free else None for p in items]
    alone = [*part.free] == items
    items[:] = [part.variable, *(p for p in items if p not in part.free)]
    if not alone or not np.array_equal(rows, np.arange(size)):
        items.append(("rows", rows.tobytes()))
    if not alone:
        items.append(("mixed", tuple(own)))


def show(
    part: Component,
    rows: Rows,
    size: int,
    use: Use,
    where: dict[Variable, tuple[int, int]],
    tables: dict[int, RowTable],
) -> None:
    """Say where a component's places are in a class: as digits, or in a table."""
    if part.variable not in where:
        return
    dim = where[part.variable][0]
    shape = [use.sizes[place] for place in part.free]
    strides = as_digits(rows, shape, size) if part.free else None
    if strides is None:
        tables[dim] = RowTable(rows, size)
        strides = [math.prod(shape[n + 1 :]) for n in range(len(shape))]
    for place, stride in zip(part.free, strides, strict=True):
        where[place] = (dim, stride)
