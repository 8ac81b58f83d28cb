"""Ops on merged classes, as the source has them: on the classes that were merged.

A merged dimension (`merging.py`) counts several of a class, as their digits do. An op
that computes each element by itself, or sums over all rows of the dimension, does the
same along the digits: what it makes of the merged class is, merged, what it makes of
the class. All other operands read the index digit by digit, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from partir.verify.classes.classes import Classes, Made
from partir.verify.classes.terms import BOUND, FREE, ClassTerm, Dims, Use
from partir.verify.equations.elementwise import COMMUTING, ELEMENTWISE
from partir.verify.identities.sums import REDUCE
from partir.verify.layouts.layout import (
    REPEATED,
    Digit,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    digits as in_normal_form,
)
from partir.verify.layouts.merging import MERGED, Form, base_of, merged

_DOT = "stablehlo.dot_general"
_KINDS = ELEMENTWISE | {REDUCE, _DOT}


class _Fine(NamedTuple):
    """A digit of a variable."""

    variable: int
    stride: int
    size: int


Names = Mapping[int, tuple[_Fine, ...]]  # of each variable, major first


def unmerged(classes: Classes, view: View) -> View:
    """What an op made of merged classes, if the source has it of those themselves."""
    if classes.source is None or classes.in_source(view.node) or view.layout.tables:
        return view
    terms = classes.terms
    if terms.form(view.node).kind not in _KINDS:
        return view
    if not any(terms.form(node).kind == MERGED for node in terms.keys[view.node][1:]):
        return view
    try:
        return _read_again(classes, view)
    except Unreadable:
        return view


def _read_again(classes: Classes, view: View) -> View:
    term = classes.terms[view.node]
    if term.specials or term.new:
        raise Unreadable("an op that works along some dimensions as a whole")
    names = _names(classes, term)
    refs = []
    for ref in term.refs:
        dims = tuple(tuple(f for v in dim for f in names[v]) for dim in ref.dims)
        if classes.terms.form(ref.node).kind != MERGED:
            refs.append((ref.node, dims))
            continue
        base, form = base_of(classes, ref.node)
        refs.append((base, _of_base(dims, form, len(classes.terms[base].dims))))
    fine = [one for own in names.values() for one in own]
    roles = {one: FREE if one.variable in term.free else BOUND for one in fine}
    use = Use({one: one.size for one in fine}, roles)
    commutes = term.kind in COMMUTING or term.kind == _DOT
    made = classes.make(term, refs, use, commutes=commutes)
    if not classes.in_source(made.node):
        raise Unreadable("not in the source, either")
    return _shown(classes, view.layout, [names[v] for v in term.free], made)


def _names(classes: Classes, term: ClassTerm) -> Names:
    """The digits of each variable: cut wherever a merged class that it reads is."""
    cuts: dict[int, set[int]] = {n: {1} for n in range(len(term.sizes))}
    for ref in term.refs:
        if classes.terms.form(ref.node).kind != MERGED:
            continue
        form = base_of(classes, ref.node)[1]
        if [math.prod(term.sizes[v] for v in dim) for dim in ref.dims] != [
            _count(items) for items in form
        ]:
            raise Unreadable("a part of what is merged")
        for dim, items in zip(ref.dims, form, strict=True):
            if len(items) > 1:
                if len(dim) != 1:
                    raise Unreadable("what is merged, read as several digits")
                cuts[dim[0]] |= {_count(items[n:]) for n in range(1, len(items))}
    return {n: tuple(_cut(n, own, term.sizes[n])) for n, own in cuts.items()}


def _count(items: Digits) -> int:
    return math.prod(digit.size for digit in items)


def _cut(variable: int, cuts: set[int], size: int) -> Iterator[_Fine]:
    """Digits between these strides, major first."""
    if cuts == {1}:
        yield _Fine(variable, 1, size)
        return
    above = size
    for stride in sorted(cuts, reverse=True):
        if above % stride:
            raise Unreadable("dimensions that are merged at other places")
        yield _Fine(variable, stride, above // stride)
        above = stride


def _of_base(dims: Dims, form: Form, rank: int) -> Dims:
    """References to a merged class's dimensions, as those to the class itself."""
    found: list[list[tuple[int, tuple[_Fine, ...]]]] = [[] for _ in range(rank)]
    for dim, items in zip(dims, form, strict=True):
        left = list(dim)
        for digit in items[:-1]:
            taken: list[_Fine] = []
            while math.prod(one.size for one in taken) < digit.size:
                taken.append(left.pop(0))
            found[digit.dim].append((digit.stride, tuple(taken)))
        found[items[-1].dim].append((items[-1].stride, tuple(left)))
    return tuple(
        tuple(one for _, own in sorted(held, key=_major_first) for one in own)
        for held in found
    )


def _major_first(piece: tuple[int, tuple[_Fine, ...]]) -> int:
    return -piece[0]


def _shown(
    classes: Classes,
    layout: DigitLayout,
    names: Sequence[tuple[_Fine, ...]],
    made: Made,
) -> View:
    """The layout of a class, as one of what was made: merged where digits were."""
    held = [
        in_normal_form(Digit(*made.where[one], one.size) for one in own)
        for own in names
    ]
    node, form = merged(classes, made.node, [items for items in held if len(items) > 1])
    if any(items not in form for items in held):
        raise Unreadable("dimensions that are merged at other places")
    places = [form.index(items) for items in held]

    def renamed(items: Digits) -> Digits:
        return tuple(
            d if d.dim == REPEATED else d._replace(dim=places[d.dim]) for d in items
        )

    local, axes = (tuple(map(renamed, held)) for held in (layout.local, layout.axes))
    if all(len(items) == 1 for items in form):
        node = made.node
    return View(node, DigitLayout(local, axes))
