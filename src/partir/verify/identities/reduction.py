"""`Reduction`: what is reduced over what, and the rows that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from partir.verify.classes.classes import NO_ROWS, Classes, Made
from partir.verify.classes.finite import finite_beside
from partir.verify.classes.mentions import SplitDims, are_all, split_dims
from partir.verify.classes.monoids import identity
from partir.verify.classes.repetition import counts_nothing
from partir.verify.classes.rows import (
    BAG,
    DROPPED,
    FIRST_MADE,
    GARBAGE,
    OPEN,
    Rows,
    fill,
    filled,
)
from partir.verify.classes.terms import (
    BOUND,
    FREE,
    ClassTerm,
    Dims,
    Use,
    Variable,
    where_of,
)
from partir.verify.layouts.concrete import literal_class


class Reduction(NamedTuple):
    """Reduce a class, whose dimensions are these variables, over some of them."""

    monoid: str
    node: int
    dims: Dims
    sizes: Mapping[Variable, int]
    bound: frozenset[Variable]
    moves: bool = True  # inwards, past what is linear
    rows: Mapping[Variable, Rows] = NO_ROWS  # of bound variables, if not all, once each
    kept: Mapping[Variable, Rows] = NO_ROWS  # of others, if they are made

    @property
    def used(self) -> frozenset[Variable]:
        """The bound variables that the class depends on."""
        return frozenset(v for dim in self.dims for v in dim if v in self.bound)


def reads_less(
    classes: Classes, made: Made, term: ClassTerm, kind: str = "part"
) -> bool:
    """Whether a class reads no parts of sums any more, as another does."""
    after, before = (t.refs for t in (classes.terms[made.node], term))
    kinds = [{classes.terms[r.node].kind for r in refs} for refs in (after, before)]
    return kind in kinds[1] and kind not in kinds[0]


def single(classes: Classes, what: Reduction) -> Made | None:
    """A reduction of one row is that row, and of none the number it starts from."""
    if len(what.used) != 1 or not what.used <= what.rows.keys():
        return None
    (variable,) = what.used
    rows = what.rows[variable]
    if what.sizes.get(variable) == BAG:
        return None
    made = _only_row(classes, what, [row[row != DROPPED] for row in _each(rows)])
    if made is None:
        return None
    rows = made.reshape(rows.shape[:-1])
    return Made(what.node, where_of(what.dims, what.sizes), {variable: rows})


def _each(rows: Rows) -> Rows:
    return rows.reshape(-1, rows.shape[-1])


def _only_row(
    classes: Classes, what: Reduction, members: Sequence[Rows]
) -> Rows | None:
    """The row of each, where all have at most one; not if none of them has any."""
    counts = {one.size for one in members}
    if 1 not in counts or max(counts) > 1:
        return None
    nothing = GARBAGE
    if 0 in counts:
        dtype = classes.terms[what.node].dtype
        literal = identity(what.monoid, dtype)
        if literal is None:
            return None
        nothing = fill(literal_class(classes, literal, dtype))
    return np.array([one[0] if one.size else nothing for one in members])


def one_row(
    classes: Classes, what: Reduction, own: Use, refs: Sequence[tuple[int, Dims]]
) -> Made | None:
    """The same of bags that devices have reduced, of one row in all."""
    if len(what.used) != 1 or BOUND in own.roles.values():
        return None
    (variable,) = what.used
    if what.sizes[variable] != BAG or variable not in what.rows:
        return None
    bags = classes.rows.union(what.rows[variable])
    if (bags == GARBAGE).any():
        return None
    members = [classes.rows.bag(int(bag)) for bag in bags.reshape(-1)]
    rows = _only_row(classes, what, members)
    if rows is None:
        return None
    ((node, dims),) = refs
    sizes = {**what.sizes, **own.sizes, variable: size_within(classes, refs, variable)}
    rows = rows.reshape(bags.shape)
    return Made(node, where_of(dims, sizes), {variable: rows})


def rows_inside(
    classes: Classes, what: Reduction, refs: Sequence[tuple[int, Dims]]
) -> list[SplitDims] | None:
    """For each operand the rows that bound variables stand for there."""
    found: list[dict[Variable, Rows]] = [{} for _ in refs]
    for variable in what.used & what.rows.keys():
        mentions = _mentions(refs, variable)
        columns = classes.rows.columns(what.rows[variable], len(mentions))
        for place in {*mentions}:
            own = [n for n, mention in enumerate(mentions) if mention == place]
            found[place][variable] = columns[..., own]
    split = [
        split_dims(dims, own, classes.terms[node].dims)
        for (node, dims), own in zip(refs, found, strict=True)
    ]
    return None if None in split else [one for one in split if one is not None]


def size_within(
    classes: Classes, refs: Sequence[tuple[int, Dims]], variable: Variable
) -> int:
    """How many rows the dimensions have that a variable runs along, if all as many."""
    found = {
        classes.terms[node].dims[number]
        for node, dims in refs
        for number, dim in enumerate(dims)
        if variable in dim
    }
    return found.pop() if len(found) == 1 else OPEN


def use_within(what: Reduction, own: Use) -> Use:
    """Variables of a term, some of which a reduction binds."""
    sizes = {**what.sizes, **own.sizes}
    roles = {v: BOUND if v in what.bound else FREE for v in what.sizes}
    return Use(sizes, {**roles, **own.roles}, own.specials)


RowsOfBags = tuple[
    Sequence[tuple[int, Dims]], Use, Mapping[Variable, Rows]
]  # what is read, over which variables, and the bags that some of these stand for


def in_digits(classes: Classes, of: RowsOfBags) -> RowsOfBags | None:
    """Bags that are all rows with one digit of their number, as this digit.

    The other digit is bound: every n-th row from a first one on, or n in a row.
    """
    refs, use, bags = of
    sizes, roles, rows = dict(use.sizes), dict(use.roles), dict(bags)
    dims = [list(held) for _, held in refs]
    for variable, numbers in bags.items():
        size = size_within(classes, refs, variable)
        found = _digit(classes, numbers, size)
        if found is None:
            return None
        digit, count, minor = found
        bound = ("bound", variable)
        pair = (bound, variable) if minor else (variable, bound)
        for held in dims:
            held[:] = [pair if dim == (variable,) else dim for dim in held]
        if any(variable in dim and dim != pair for held in dims for dim in held):
            return None
        sizes[variable], roles[variable] = size // count, FREE
        sizes[bound], roles[bound] = count, BOUND
        rows[variable] = digit
    made = [(node, tuple(held)) for (node, _), held in zip(refs, dims, strict=True)]
    return made, Use(sizes, roles, use.specials), rows


def _digit(classes: Classes, bags: Rows, size: int) -> tuple[Rows, int, bool] | None:
    """The digit that tells bags apart, how many rows each has, and if it is minor."""
    if (bags < FIRST_MADE).any():
        return None
    members = [classes.rows.bag(int(bag)) for bag in bags.reshape(-1)]
    count = members[0].size
    if any(one.size != count for one in members) or count < 2:
        return None
    every = np.stack(members)
    if size < 1 or size % count or (every < 0).any() or (every >= size).any():
        return None
    number = every[:, 0]
    steps = np.arange(count)
    if np.array_equal(number[:, None] + size // count * steps, every):
        return number.reshape(bags.shape), count, True
    if np.array_equal((number // count * count)[:, None] + steps, every):
        return (number // count).reshape(bags.shape), count, False
    return None


def dropped(classes: Classes, what: Reduction) -> Reduction:
    """Without the numbers in place of rows that do not count, and without all rows."""
    found = {}
    for variable, rows in what.rows.items():
        for code in np.unique(rows[rows < GARBAGE]):
            if counts_nothing(classes, what.monoid, filled(int(code))):
                rows = np.where(rows == code, DROPPED, rows)
        if not are_all(rows, what.sizes.get(variable, OPEN)):
            found[variable] = rows
    return what._replace(rows=found) if what.rows else what


def productive(
    classes: Classes,
    what: Reduction,
    refs: Sequence[tuple[int, Dims]],
    nothing: frozenset[int],
) -> Reduction:
    """Without rows at which one of these operands is a number that counts nothing.

    Of what is not known of another operand nothing is known of the row either.
    """
    found = dict(what.rows)
    for variable in what.used & what.rows.keys():
        mentions = _mentions(refs, variable)
        if what.sizes[variable] == BAG or not nothing.intersection(mentions):
            continue
        rows = what.rows[variable]
        columns = classes.rows.columns(rows, len(mentions))
        finite = len(nothing) < 2 or finite_beside(classes, columns)  # zero times nan
        for number, place in enumerate(mentions):
            own = columns[..., number]
            for code in np.unique(own[own < GARBAGE]) if place in nothing else ():
                if counts_nothing(classes, what.monoid, filled(int(code))):
                    rows = np.where((own == code) & finite, DROPPED, rows)
        found[variable] = rows
    return what._replace(rows=found) if what.rows else what


def closed(
    classes: Classes, what: Reduction, use: Use, refs: Sequence[tuple[int, Dims]]
) -> tuple[Use, dict[Variable, Rows]]:
    """Bound variables with rows of their own: free ones that stand for bags.

    If all rows are in each bag, once, the variable is bound like any other.
    """
    sizes, roles, found = dict(use.sizes), dict(use.roles), {}
    for variable in what.used & what.rows.keys():
        rows = what.rows[variable]
        is_bag = what.sizes[variable] == BAG
        made = classes.rows.union(rows) if is_bag else classes.rows.bags(rows)
        sizes[variable], roles[variable] = BAG, FREE
        size = size_within(classes, refs, variable)
        if size > 0 and classes.rows.complete(made, size):
            sizes[variable], roles[variable] = size, BOUND
        else:
            found[variable] = made
    return Use(sizes, roles, use.specials), found


def _mentions(refs: Sequence[tuple[int, Dims]], variable: Variable) -> list[int]:
    """Operands that have a variable, as often as they have it."""
    return [n for n, (_, dims) in enumerate(refs) for dim in dims if variable in dim]
