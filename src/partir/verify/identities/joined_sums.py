"""Values side by side, reduced along other dimensions: each of them by itself.

The source may reduce values and put them side by side then; devices put side by side
what they have of each, and reduce that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partir.verify.classes.classes import Classes, Made
from partir.verify.classes.repetition import repeated_often
from partir.verify.classes.rows import FIRST_FILLED, FIRST_MADE, GARBAGE, OPEN, Rows
from partir.verify.classes.terms import (
    FREE,
    ClassTerm,
    Dims,
    Use,
    Variable,
    dims_of,
    numbered,
)
from partir.verify.identities.reduction import Reduction
from partir.verify.layouts.layout import Unreadable
from partir.verify.layouts.unjoined import JOINED

Reduce = Callable[[Classes, Reduction], Made]
Key = tuple[int, ...]  # of a value among others: `MadeRows.of_class`
_OWN: Variable = ("rows", "of a value")


def reduced_apart(
    classes: Classes, term: ClassTerm, what: Reduction, reduce: Reduce
) -> Made | None:
    """A reduction of values side by side, as reductions that are; None if it is not.

    Rows along which they are side by side are kept, and none of them is a number.
    """
    held = what.dims[0] if what.dims else ()
    if len(held) != 1 or held[0] not in what.kept or what.rows or len(what.kept) > 1:
        return None
    codes = what.kept[held[0]]
    distinct = [int(code) for code in np.unique(codes[codes != GARBAGE])]
    if not distinct or min(distinct) < FIRST_MADE or max(distinct) >= FIRST_FILLED:
        return None
    if not all(map(classes.rows.is_of_class, distinct)):
        return None
    own = classes.rows.rows_of_class(np.array(distinct))
    if own.min() < 0 or own.max() >= FIRST_MADE:  # a number among them is summed, too
        return None
    keys = sorted({classes.rows.class_of(code) for code in distinct})
    try:
        made = {key: _reduced(classes, what, key, reduce) for key in keys}
    except Unreadable:
        return None
    return _side_by_side(classes, term, what, made)


def _reduced(classes: Classes, what: Reduction, key: Key, reduce: Reduce) -> Made:
    """One of the values, reduced over the same variables."""
    node, own, *flat = key
    dims: list[tuple[Variable, ...]] = [()]
    for number in flat:
        if number >= 0:
            dims[-1] += what.dims[number + 1]
        else:
            dims.append(())
    sizes = dict(what.sizes)
    if own >= 0:
        dims[own] = (_OWN,)
        sizes[_OWN] = classes.terms[node].dims[own]
    inner = what._replace(node=node, dims=tuple(dims[:-1]), sizes=sizes, kept={})
    made = reduce(classes, inner)
    for variable in what.used - inner.used:
        found = repeated_often(classes, made, what.monoid, what.sizes[variable])
        if found is None:
            raise Unreadable(f"a {what.monoid} of equal values")
        made = found
    if made.rows or (own >= 0 and made.where.get(_OWN, (0, 0))[1] != 1):
        raise Unreadable("a value among others whose rows are not its own any more")
    return made


def _side_by_side(
    classes: Classes, term: ClassTerm, what: Reduction, made: dict[Key, Made]
) -> Made:
    """The class that joins reduced values, in the form of `joins.py`."""
    order = sorted(made, key=lambda key: made[key].node)
    refs = [_dims(classes, made[key]) for key in order]
    left = {v: what.sizes[v] for dim in what.dims[1:] for v in dim} | {_OWN: OPEN}
    sizes = {v: size for v, size in left.items() if v not in what.used}
    free = [tuple(() if _OWN in dim else dim for dim in dims) for dims in refs]
    found = numbered(free, Use(sizes, dict.fromkeys(sizes, FREE)))
    (variable,) = what.dims[0]
    codes: Rows = what.kept[variable].copy()
    for key, dims, own in zip(order, found.dims, refs, strict=True):
        place = next((n for n, dim in enumerate(own) if _OWN in dim), -1)
        flat = [x for dim in dims for x in (*dim, -4)]
        code = [made[key].node, place, *flat]
        for old in np.unique(what.kept[variable][what.kept[variable] >= 0]):
            if classes.rows.class_of(int(old)) == key:
                row = classes.rows.rows_of_class(np.array([old]))
                codes[what.kept[variable] == old] = classes.rows.of_class(code, row)
    kept = tuple(found.sizes[number] for number in found.free)
    joined = ClassTerm(JOINED, (), (), (), (), new=(OPEN, *kept), dtype=term.dtype)
    where = {v: (dim + 1, stride) for v, (dim, stride) in found.where().items()}
    return Made(classes.of(joined), {**where, variable: (0, 1)}, {variable: codes})


def _dims(classes: Classes, made: Made) -> Dims:
    return dims_of(made.where, len(classes.terms[made.node].dims))
