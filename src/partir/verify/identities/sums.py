"""Reductions: one over another is one, and sums move past what is linear.

A sum that a device has done of its own part is a class with a free variable left, that
of the axis. The sum over devices binds it. Bound within the same reduction or product,
it is what the source computes; else the sum is moved inwards, past ops that are linear
(`linear.py`), until it meets the reduction that it belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from partir.verify.classes.classes import Classes, Made, inside
from partir.verify.classes.finite import are_finite
from partir.verify.classes.mentions import SplitDims
from partir.verify.classes.monoids import sum_of
from partir.verify.classes.repetition import (
    POWER,
    REPEATED,
    TIMES,
    repeated_often,
    starts_reduction,
)
from partir.verify.classes.rows import BAG, DROPPED, GARBAGE, OPEN, Rows
from partir.verify.classes.terms import (
    FREE,
    ClassTerm,
    Dims,
    Use,
    Variable,
    dims_of,
    where_of,
)
from partir.verify.identities.joined_sums import reduced_apart
from partir.verify.identities.kept_rows import (
    apart,
    counted,
    kept_inside,
    made_ones,
    specials_inside,
    with_numbers,
)
from partir.verify.identities.linear import PushedSum, step_past
from partir.verify.identities.reduction import (
    Reduction,
    RowsOfBags,
    closed,
    dropped,
    in_digits,
    one_row,
    productive,
    reads_less,
    rows_inside,
    single,
    size_within,
    use_within,
)
from partir.verify.layouts.concrete import KNOWN, reduced_rows
from partir.verify.layouts.picks import PICKED, pick, picked_rows
from partir.verify.layouts.pins import AT, at, settled_rows
from partir.verify.layouts.unjoined import JOINED

REDUCE, PART = "reduce", "part"
# Ops that add up products: a sum over one of their free variables binds it.
CONTRACTIONS = frozenset({"stablehlo.dot_general", "stablehlo.convolution"})


BINDING = frozenset({REDUCE, "stablehlo.dot_general"})  # bind a variable more
# Classes that a reduction may have another form of than one around them.
LOOKED_INTO = CONTRACTIONS | {REDUCE, TIMES, POWER, PART, AT, PICKED, KNOWN}
LOOKED_INTO |= {"stablehlo.scatter"}
# Operands that make nothing of all that they are put together with, being nothing.
_COUNT_NOTHING = dict.fromkeys(CONTRACTIONS, frozenset({0, 1}))
_COUNT_NOTHING["stablehlo.scatter"] = frozenset({2})


def reduce(classes: Classes, what: Reduction) -> Made:
    """The class of a reduction, in the form in which the source has it if it does.

    A sum over one axis that was moved inwards may belong with one over another that
    was not: both are tried.
    """
    made = _reduced(classes, what)
    before = classes.unmoved.get(what.node)
    if before is None or what.rows or what.kept or in_source(classes, made):
        return made
    node, order = before
    dims = tuple(what.dims[dim] for dim in order)
    whole = _reduced(classes, what._replace(node=node, dims=dims))
    return whole if in_source(classes, whole) else made


def _reduced(classes: Classes, what: Reduction) -> Made:
    used = what.used
    if not used:
        return Made(what.node, where_of(what.dims, what.sizes), what.kept)
    what = dropped(classes, what)
    term = classes.terms[what.node]
    if term.kind == KNOWN and (made := _computed(term, what)) is not None:
        return made
    if term.kind not in (AT, PICKED):
        made = _of_rows(classes, term, what)
        if term.kind != JOINED or in_source(classes, made):
            return made
        apart_ = reduced_apart(classes, term, what, reduce)
        return apart_ if apart_ and in_source(classes, apart_) else made
    if not _counts_picked(term, what):
        within = _INSIDE[term.kind](classes, term, what)
        return within or _of_rows(classes, term, what)
    made = _of_rows(classes, term, what)
    if in_source(classes, made):
        return made
    within = _INSIDE[term.kind](classes, term, what)
    return within if within and _rows_in_source(classes, within) else made


def _of_rows(classes: Classes, term: ClassTerm, what: Reduction) -> Made:
    """A reduction of rows of a class, as they are."""
    alone = single(classes, what)
    numbers = any((rows < GARBAGE).any() for rows in what.rows.values())
    if alone is not None:
        found = _with_kept(alone, what)
        if numbers or not what.moves or _has_row(classes, alone):
            return found
        pushed = _push(classes, term, what)  # the source may read each row by itself
        return found if pushed is None or not in_source(classes, pushed) else pushed
    return (_plain if numbers else _of_term)(classes, term, what)


def _with_kept(made: Made, what: Reduction) -> Made:
    """A class that reads the same operands: rows that are kept are rows of it, too."""
    return made._replace(rows={**made.rows, **what.kept})


def _has_row(classes: Classes, made: Made) -> bool:
    """Whether the source has these rows of a class; of one row alone, that row."""
    ((variable, rows),) = made.rows.items()
    if rows.size > 1 or rows.reshape(-1)[0] < 0:
        return in_source(classes, made)
    pinned = {made.where[variable][0]: int(rows.reshape(-1)[0])}
    return classes.in_source(at(classes, made.node, pinned)[0])


def _counts_picked(term: ClassTerm, what: Reduction) -> bool:
    """Whether a reduction runs over rows that are counted, such as bags."""
    return term.kind == PICKED and any(
        what.used & {*what.dims[dim]} for dim, _ in term.attrs
    )


def _computed(term: ClassTerm, what: Reduction) -> Made | None:
    """A reduction of rows that are numbers."""
    (dim,) = what.dims
    if len(dim) != 1 or dim[0] not in what.rows:
        return None
    rows = reduced_rows(what.monoid, term.dtype, what.rows[dim[0]])
    if rows is None:
        return None
    return Made(what.node, where_of(what.dims, what.sizes), {dim[0]: rows})


def _of_term(classes: Classes, term: ClassTerm, what: Reduction) -> Made:
    """A reduction of plain rows of a class."""
    kind, often = REPEATED.get(what.monoid, ("", None))
    if term.kind == kind and often is not None:
        (ref,) = term.refs
        inner = reduce(classes, what._replace(node=ref.node))
        return inner._replace(node=often(classes, inner.node, int(str(term.attrs))))
    if (
        term.kind == PART
        and not what.rows
        and (whole := _whole(term, what)) is not None
    ):
        return whole
    direct = _bind(classes, term, what)
    if direct is not None and in_source(classes, direct):
        return direct
    if what.moves and (direct is None or what.monoid == "sum"):
        pushed = _push(classes, term, what)
        if pushed and (in_source(classes, pushed) or reads_less(classes, pushed, term)):
            return pushed
        if pushed is not None and direct is None:
            return _moved(classes, pushed, _plain(classes, term, what))
    return direct or _plain(classes, term, what)


def _moved(classes: Classes, pushed: Made, plain: Made) -> Made:
    """A sum that was moved inwards, and what it is without that, for later sums."""
    if in_source(classes, plain):
        return plain
    if pushed.rows or plain.rows:
        return pushed
    have, want = (
        dims_of(made.where, len(classes.terms[made.node].dims))
        for made in (pushed, plain)
    )
    if sorted(map(repr, have)) == sorted(map(repr, want)):
        order = tuple(have.index(dim) for dim in want)
        classes.unmoved[pushed.node] = (plain.node, order)
    return pushed


def _inside_pins(classes: Classes, term: ClassTerm, what: Reduction) -> Made:
    """A class at some rows: what it is a part of, reduced, at the same rows."""
    (ref,), dims = term.refs, iter(what.dims)
    names = {dim: ("pin", what.node, dim) for dim, _ in term.attrs}
    whole = tuple(  # nothing counts along the last ones, if they have one row
        next(dims, ()) if held else (names[dim],) for dim, held in enumerate(ref.dims)
    )
    sizes = dict(what.sizes)
    for dim, name in names.items():
        sizes[name] = classes.terms[ref.node].dims[dim]
    pins = {names[dim]: np.array([row]) for dim, row in term.attrs}
    kept = {**what.kept, **made_ones(pins)}
    inner = what._replace(node=ref.node, dims=whole, sizes=sizes, kept=kept)
    made = reduce(classes, inner)
    return settled_rows(
        classes, made._replace(rows={**pins, **made.rows}), {*names.values()}
    )


def _inside_picks(classes: Classes, term: ClassTerm, what: Reduction) -> Made | None:
    """A class some of whose rows are counted: what they are rows of, reduced."""
    (ref,), picks = term.refs, dict(term.attrs)
    bound = [dim for dim in picks if what.used & {*what.dims[dim]}]
    own = classes.terms[ref.node].dims
    if any(len(what.dims[dim]) > 1 for dim in bound):
        return None
    names = {dim: ("picked", what.node, dim) for dim in picks if dim not in bound}
    dims = tuple(
        (names[dim],) if dim in names else held for dim, held in enumerate(what.dims)
    )
    sizes, rows = dict(what.sizes), dict(what.rows)
    for dim in picks:
        sizes[dims[dim][0]] = own[dim]
    for dim in bound:
        (variable,) = what.dims[dim]
        held = rows.get(variable, np.arange(term.dims[dim])[None])
        rows[variable] = classes.rows.picked(held, picks[dim])
    kept = {n: classes.rows.table(picks[dim]) for dim, n in names.items()}
    inner = what._replace(node=ref.node, dims=dims, sizes=sizes, rows=rows)
    made = reduce(classes, inner._replace(kept={**what.kept, **kept}))
    where, node, rows = dict(made.where), made.node, dict(made.rows)
    for dim, name in names.items():
        number = _picked_again(classes, rows.pop(name), kept[name], picks[dim])
        if number is None:
            return None
        place = where.pop(name)[0]
        for variable, (_, stride) in where_of((what.dims[dim],), what.sizes).items():
            where[variable] = (place, stride)
        node = pick(classes, node, place, number)
    return Made(node, where, rows)


def _picked_again(
    classes: Classes, rows: Rows, before: Rows, number: int
) -> int | None:
    """The table that counts what rows are after a reduction, in the same order."""
    if np.array_equal(rows, before):
        return number
    found = classes.rows.pick(rows)
    if found is None or not np.array_equal(classes.rows.table(found), rows):
        return None
    return found


_INSIDE: dict[str, Callable[[Classes, ClassTerm, Reduction], Made | None]] = {
    AT: _inside_pins,
    PICKED: _inside_picks,
}


def in_source(classes: Classes, made: Made) -> bool:
    """Whether the source has a class, and these rows of it."""
    return classes.in_source(made.node) and all(
        map(classes.rows.in_source, made.rows.values())
    )


def _rows_in_source(classes: Classes, made: Made) -> bool:
    """Whether the source has what rows are of, and these rows; the source has not."""
    node = made.node
    while classes.terms[node].kind in (AT, PICKED):
        node = classes.terms[node].refs[0].node
    return classes.source is not None and in_source(classes, made._replace(node=node))


def _whole(term: ClassTerm, what: Reduction) -> Made | None:
    """What a loop's parts add up to, by the loop's invariant."""
    monoid, node, extra, *_ = term.attrs  # as loops.py and lookups.py make it
    bound = {v for dim in what.dims[:extra] for v in dim}
    if monoid != what.monoid or what.used != bound:
        return None
    return Made(node, where_of(what.dims[extra:], what.sizes), what.kept)


def _bind(classes: Classes, term: ClassTerm, what: Reduction) -> Made | None:
    """Bound in the reduction or product that made the class, if one did."""
    free = len(term.free)
    in_new = any(v in what.bound for dim in what.dims[free:] for v in dim)
    if in_new or not _binds(classes, term, what.monoid):
        return None
    refs, own = inside(term, what.dims, (what.node, "inside"))
    what = productive(classes, what, refs, _COUNT_NOTHING.get(term.kind, frozenset()))
    row = one_row(classes, what, own, refs) if term.kind == REDUCE else None
    if row is not None:
        return _with_kept(row, what)
    use, rows = closed(classes, what, use_within(what, own), refs)
    commutes = term.kind == "stablehlo.dot_general"
    made = _made(classes, term, (refs, use, rows), what.dims[free:], commutes)
    return _with_kept(made, what)


def _made(
    classes: Classes,
    like: ClassTerm,
    of: RowsOfBags,
    new: Dims = (),
    commutes: bool = False,
) -> Made:
    """A class that binds some rows: as bags, or as digits if the source has that."""
    refs, use, rows = of
    made = classes.make(like, refs, use, new, commutes)._replace(rows=rows)
    if not rows or in_source(classes, made):
        return made
    apart = in_digits(classes, of)
    if apart is None:
        return made
    found = classes.make(like, apart[0], apart[1], new, commutes)
    found = found._replace(rows=apart[2])
    return found if in_source(classes, found) else made


def _binds(classes: Classes, term: ClassTerm, monoid: str) -> bool:
    """Whether a class is a reduction itself, which binds one more variable."""
    if term.kind == REDUCE:
        return bool(term.attrs == monoid)
    if term.kind == "stablehlo.scatter":  # into nothing, which then counts once
        into = classes.terms[term.refs[0].node]
        return scatters(term) == monoid and starts_reduction(monoid, into)
    return term.kind in CONTRACTIONS and monoid == sum_of(term.dtype)


def scatters(term: ClassTerm) -> object:
    """How a scatter combines what meets at one place."""
    assert isinstance(term.attrs, tuple)
    return term.attrs[0]


def _plain(classes: Classes, term: ClassTerm, what: Reduction) -> Made:
    like = ClassTerm(REDUCE, what.monoid, (), (), (), dtype=term.dtype)
    refs = [(what.node, what.dims)]
    use = use_within(what, Use({}, {}))
    read = {v: max(size, OPEN) for v, size in use.sizes.items()}  # bags as they are
    as_rows = what._replace(sizes={**what.sizes, **read})
    use, rows = closed(classes, as_rows, use._replace(sizes=read), refs)
    return _with_kept(_made(classes, like, (refs, use, rows)), what)


def _push(classes: Classes, term: ClassTerm, what: Reduction) -> Made | None:
    """The same op on reductions of its operands, if it is linear in them."""
    free = len(term.free)
    if any(v in what.bound for dim in what.dims[free:] for v in dim):
        return None
    if any(what.sizes[v] == BAG for v in what.used):
        return None
    refs, own = inside(term, what.dims, (what.node, "inside"))
    used = what.used
    depends = [any(v in used for dim in dims for v in dim) for _, dims in refs]
    step = step_past(classes, term, what.monoid, depends)
    if step is None or (step.some and not _is_of_some(what)):
        return None
    columns, kept = rows_inside(classes, what, refs), kept_inside(classes, what, refs)
    along = specials_inside(classes, what, refs, step.into, own.specials)
    if columns is None or kept is None or along is None:
        return None
    others = [rows for rows, goes in zip(kept, step.into, strict=True) if not goes]
    shown = [held for rows in others for held in rows.values()]
    if step.finite and not all(are_finite(classes, held) for held in shown):
        return None
    use = use_within(what, own._replace(specials=along))
    made: list[Made] = []
    for place, ((node, dims), goes) in enumerate(zip(refs, step.into, strict=True)):
        one = Made(node, where_of(dims, use.sizes), kept[place])
        if goes:
            one = _inner(classes, what, use, node, columns[place], kept[place])
        made.append(one)
    return _rebuilt(classes, step, term, made, use, what)


def _is_of_some(what: Reduction) -> bool:
    """Whether a reduction is of one element at least, wherever it is."""
    counted = {v: (rows != DROPPED).any(-1).all() for v, rows in what.rows.items()}
    return all(counted[v] if v in counted else what.sizes[v] >= 1 for v in what.used)


def _inner(
    classes: Classes,
    what: Reduction,
    use: Use,
    node: int,
    split: SplitDims,
    shown: Mapping[Variable, Rows],
) -> Made:
    """An operand, reduced; `shown` are its rows where they are kept."""
    dims, rows = split.dims, split.rows
    sizes = {v: use.sizes[v] for dim in dims for v in dim if v in use.sizes}
    for dim, own in zip(dims, classes.terms[node].dims, strict=True):
        odd = rows.keys() | shown.keys()
        if len(dim) == 1 and (own <= OPEN or dim[0] in odd or dim[0] not in sizes):
            sizes[dim[0]] = own
    used = what.used | split.bound
    missing = what.used - frozenset(sizes) - {v for v, _ in split.kept.values()}
    numbers = any((held < GARBAGE).any() for held in shown.values())
    over = what.used - missing if numbers else ()
    count = math.prod(counted(what, v) for v in over)
    inner = _reduced_but_numbers(
        classes,
        Reduction(what.monoid, node, dims, sizes, used, rows=rows),
        shown,
        count,
    )
    for variable in missing:
        count = counted(what, variable)
        found = repeated_often(classes, inner, what.monoid, count)
        assert found is not None, what.monoid
        inner = found
    names = {v: held for v, (held, _) in split.kept.items()}
    where = {
        names.get(v, v): at
        for v, at in inner.where.items()
        if v not in used or v in inner.rows
    }
    kept = dict(split.kept.values())
    return picked_rows(classes, Made(inner.node, where, {**inner.rows, **kept}))


def _reduced_but_numbers(
    classes: Classes, what: Reduction, shown: Mapping[Variable, Rows], count: int
) -> Made:
    """A reduction over `count` places, and of numbers in place of rows that it keeps.

    `shown` are these rows.
    """
    found = {v: apart(classes, rows[..., None]) for v, rows in shown.items()}
    plain = {v: rows for v, (rows, _) in found.items()}
    made = reduce(classes, what._replace(kept=made_ones(plain)))
    rows = {**plain, **made.rows}
    for variable, (_, codes) in found.items():
        held = rows[variable]
        rows[variable] = with_numbers(classes, what.monoid, held, codes, count)
    return made._replace(rows=rows)


def _rebuilt(
    classes: Classes,
    step: PushedSum,
    term: ClassTerm,
    made: list[Made],
    use: Use,
    what: Reduction,
) -> Made:
    made = [_apart(classes, one, what.used) for one in made]
    if step.commutes:
        made = sorted(made, key=_node)
    refs = [
        (one.node, dims_of(one.where, len(classes.terms[one.node].dims)))
        for one in made
    ]
    columns: dict[Variable, list[Rows]] = {}
    for one in made:
        for variable, held in one.rows.items():
            columns.setdefault(variable, []).append(held)
    rows = {v: classes.rows.tuples(np.stack(c, -1)) for v, c in columns.items()}
    sizes = dict(use.sizes)
    roles = {v: role for v, role in use.roles.items() if v not in what.used}
    for variable in rows:
        roles[variable] = FREE
        sizes[variable] = max(size_within(classes, refs, variable), OPEN)
    found = classes.make(
        term, refs, Use(sizes, roles, use.specials), what.dims[len(term.free) :]
    )
    return found._replace(rows=rows)


def _apart(classes: Classes, made: Made, used: frozenset[Variable]) -> Made:
    """Without variables whose rows no place tells apart any more."""
    alone = {v for v, rows in made.rows.items() if v in used and rows.size == 1}
    return settled_rows(classes, made, alone)


def _node(made: Made) -> int:
    return made.node
