"""What an index is made of: how it depends on another one, and in which place on which.

Indices are shifted, clamped and compared. Up to which number that tells them apart,
and where they wrap round, says which of them must be tried to know about all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import GARBAGE, Rows
from partir.verify.classes.terms import ClassTerm, Dims
from partir.verify.layouts.concrete import RUN, TYPES, evaluated
from partir.verify.layouts.layout import Unreadable, View
from partir.verify.layouts.spread import rows_of


class IndexReach(NamedTuple):
    """Plus or minus an index and a number from `low` to `high`, or such a number alone.

    `edge` is the largest index, or the distance from an end of the type, at which one
    case may become another.
    """

    depends: bool  # on the index, other than which case it is
    low: int
    high: int
    edge: int = 0


def reach(classes: Classes, node: int, leaf: int) -> IndexReach:
    """How a class depends on another one, `leaf`."""
    term = classes.terms[node]
    if node == leaf:
        return IndexReach(True, 0, 0)
    known = evaluated(classes, node)
    if known is not None and not is_made_of(classes, node, leaf):
        return IndexReach(False, int(known.min()), int(known.max()))
    rule = _RULES.get(term.kind.removeprefix("stablehlo."))
    if rule is None or term.new:
        raise Unreadable("an index that is computed in an unknown way")
    operands = [reach(classes, ref.node, leaf) for ref in term.refs]
    types = [classes.terms[ref.node].dtype for ref in term.refs]
    made = rule(term, operands, types)
    if made is None:
        raise Unreadable("an index that is computed in an unknown way")
    return made._replace(edge=max(_widest(made), *(one.edge for one in operands)))


def is_made_of(classes: Classes, node: int, leaf: int) -> bool:
    """Whether a class reads another one."""
    left, seen = [node], {node}
    while left:
        refs = {ref.node for ref in classes.terms[left.pop()].refs}
        if leaf in refs:
            return True
        left += refs - seen
        seen |= refs
    return False


def _widest(one: IndexReach) -> int:
    return max(abs(one.low), abs(one.high), one.edge)


def apart(one: IndexReach, other: IndexReach) -> int:
    """The largest index at which one may become larger than the other."""
    return max(abs(one.low - other.high), abs(one.high - other.low))


Rule = Callable[[ClassTerm, Sequence[IndexReach], Sequence[str]], IndexReach | None]


def _added(
    term: ClassTerm, operands: Sequence[IndexReach], types: Sequence[str]
) -> IndexReach | None:
    x, y = operands
    if (x.depends and y.depends) or term.dtype == "i1":
        return None
    if term.kind == "stablehlo.subtract":
        y = IndexReach(y.depends, -y.high, -y.low)
    return IndexReach(x.depends or y.depends, x.low + y.low, x.high + y.high)


def _negated(
    term: ClassTerm, operands: Sequence[IndexReach], types: Sequence[str]
) -> IndexReach:
    (x,) = operands
    return IndexReach(x.depends, -x.high, -x.low)


def _multiplied(
    term: ClassTerm, operands: Sequence[IndexReach], types: Sequence[str]
) -> IndexReach | None:
    """Of numbers alone: as many cases as before."""
    x, y = operands
    if x.depends or y.depends:
        return None
    ends = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return IndexReach(False, min(ends), max(ends))


def _one_of(
    term: ClassTerm, operands: Sequence[IndexReach], types: Sequence[str]
) -> IndexReach:
    """One of them, by which is larger."""
    edge = max(apart(x, y) for x in operands for y in operands)
    return _either(operands)._replace(edge=edge)


def _either(operands: Sequence[IndexReach]) -> IndexReach:
    return IndexReach(
        any(one.depends for one in operands),
        min(one.low for one in operands),
        max(one.high for one in operands),
    )


def _selected(
    term: ClassTerm, operands: Sequence[IndexReach], types: Sequence[str]
) -> IndexReach:
    return _either(operands[1:])


def _compared(
    term: ClassTerm, operands: Sequence[IndexReach], types: Sequence[str]
) -> IndexReach:
    return IndexReach(False, 0, 1, apart(*operands))


def _logical(
    term: ClassTerm, operands: Sequence[IndexReach], types: Sequence[str]
) -> IndexReach | None:
    return IndexReach(False, 0, 1) if term.dtype == "i1" else None


def _converted(
    term: ClassTerm, operands: Sequence[IndexReach], types: Sequence[str]
) -> IndexReach | None:
    """To a type that has all numbers of its own."""
    return operands[0] if np.can_cast(TYPES[types[0]], TYPES[term.dtype]) else None


_RULES: dict[str, Rule] = {
    "add": _added,
    "subtract": _added,
    "negate": _negated,
    "multiply": _multiplied,
    "maximum": _one_of,
    "minimum": _one_of,
    "clamp": _one_of,
    "select": _selected,
    "compare": _compared,
    "and": _logical,
    "or": _logical,
    "xor": _logical,
    "not": _logical,
    "convert": _converted,
}


def leaf_rows(classes: Classes, view: View, leaf: int) -> list[Rows]:
    """At each place, the row of each dimension of `leaf` that a value is made of."""
    dims = _dims_of_leaf(classes, view.node, leaf)
    if dims is None:
        raise Unreadable("an index that is computed in an unknown way")
    sizes, found = classes.terms[view.node].dims, []
    for held in dims:
        rows = [rows_of(view.layout, dim) for dim in held]
        if view.node != leaf and any((own < GARBAGE).any() for own in rows):
            raise Unreadable("a number in place of what is made of an index")
        if len(rows) > 1 and any((own < 0).any() for own in rows):
            raise Unreadable("an index some of whose places are not known")
        strides = [math.prod(sizes[d] for d in held[n + 1 :]) for n in range(len(held))]
        shape = (1,) * (len(view.layout.axes) + len(view.layout.local))
        made = np.zeros(shape, np.int64)
        for own, stride in zip(rows, strides, strict=True):
            made = made + own * stride
        found.append(made)
    return found


def is_made_alike(classes: Classes, view: View, index: View) -> bool:
    """Whether a value is made of an index, at its own place on each device."""
    leaf = index.node
    if view.node != leaf and not is_made_of(classes, view.node, leaf):
        return False
    have, want = (leaf_rows(classes, one, leaf) for one in (view, index))
    return all(bool((a == b).all()) for a, b in zip(have, want, strict=True))


def _dims_of_leaf(classes: Classes, node: int, leaf: int) -> Dims | None:
    """A leaf's dimensions as those of a class made of it, if always the same."""
    if node == leaf:
        return tuple((dim,) for dim in range(len(classes.terms[leaf].dims)))
    if not is_made_of(classes, node, leaf):
        return None
    term, found = classes.terms[node], set[Dims]()
    for ref in term.refs:
        inner = _dims_of_leaf(classes, ref.node, leaf)
        if inner is None:
            continue
        found.add(
            tuple(
                tuple(term.free.index(v) for d in held for v in ref.dims[d])
                for held in inner
            )
        )
    if len(found) > 1:
        raise Unreadable("an index that is read in several places at once")
    return found.pop() if found else None


def function(classes: Classes, node: int, leaf: int, values: Rows) -> np.ndarray | None:
    """A class along its dimensions, for each value that another one, `leaf`, has.

    Of size one along dimensions that nothing depends on.
    """
    term = classes.terms[node]
    if node == leaf:
        own: np.ndarray = values.astype(TYPES[term.dtype])
        return own.reshape(-1, *(1 for _ in term.dims))
    known = evaluated(classes, node)
    if known is not None and not is_made_of(classes, node, leaf):
        return known[None]
    run, dtype = RUN.get(term.kind.removeprefix("stablehlo.")), TYPES.get(term.dtype)
    if run is None or dtype is None or term.new:
        return None
    operands = []
    for ref in term.refs:
        found = function(classes, ref.node, leaf, values)
        if found is None:
            return None
        operands.append(_over(found, ref.dims, term.sizes))
    with np.errstate(all="ignore"):
        made = run(term.attrs, *operands)
    return None if made is None else np.asarray(made).astype(dtype)


def _over(
    found: np.ndarray, dims: Sequence[tuple[int, ...]], sizes: tuple[int, ...]
) -> np.ndarray:
    """The same over the variables of a term that reads it."""
    variables = [v for n, dim in enumerate(dims) if found.shape[n + 1] > 1 for v in dim]
    apart = found.reshape(-1, *(sizes[v] for v in variables))
    order = sorted(range(len(variables)), key=lambda place: variables[place])
    turned = apart.transpose(0, *(place + 1 for place in order))
    return turned.reshape(
        -1, *(n if v in variables else 1 for v, n in enumerate(sizes))
    )
