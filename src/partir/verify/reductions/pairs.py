"""Reductions without a name, such as an arg-maximum: of reductions of tiles.

A reduction may be done in any order of its steps, as long as elements stay in theirs:
StableHLO says so of every reducer, and of its initial values that they may come in
anywhere. So a reduction along what reductions along tiles have given, by the same
reducer and from the same initial values, is one along all tiles, each behind the other,
if these are shown not to count; and if the initial values of tiles have no flag that
says that they count, those are any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partir.ir.attributes import ints
from partir.ir.core import Lambda, Op
from partir.verify.classes.terms import ClassTerm, Item, Ref
from partir.verify.layouts.layout import (
    REPEATED,
    Digit,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    digits,
)
from partir.verify.machine.machine import Machine
from partir.verify.reductions.guards import guards

Counts = Callable[[Lambda, Sequence[str | None]], bool]
_TRYING: list[Counts] = []


def trying(run: Counts) -> Counts:
    """Register what looks at reducers, and at numbers that they start from."""
    _TRYING.append(run)
    return run


def reduced_again(machine: Machine, op: Op, views: Sequence[View]) -> list[View]:
    """A reduction, of what was reduced before if the source has that."""
    made = machine.by_equation(op, views)
    if machine.classes.source is None or machine.classes.in_source(made[0].node):
        return made
    try:
        found = machine.by_equation(op, _before(machine, op, views))
    except Unreadable:
        return made
    return found if machine.classes.in_source(found[0].node) else made


def _before(machine: Machine, op: Op, views: Sequence[View]) -> list[View]:
    """What reductions along tiles read, the tiles one behind the other."""
    count = len(views) // 2
    along = max(ints(op.signature.attrs["dimensions"]))
    values, starts = views[:count], list(views[count:])
    terms = [machine.term(view) for view in values]
    first = terms[0]
    if any(
        term._replace(result=0, dtype="") != first._replace(result=0, dtype="")
        or term.result != number
        for number, term in enumerate(terms)
    ):
        raise Unreadable("results of different reductions")
    if first.kind != op.kind or first.new:
        raise Unreadable("another reduction")
    layout = values[0].layout
    if any(view.layout != layout or view.layout.tables for view in values):
        raise Unreadable("results that lie at different places")
    if not _is_guarded(machine, first, op):
        if first.attrs != op.signature.lambdas:
            raise Unreadable("another reduction")
        befores = [_start(first, ref, layout) for ref in first.refs[count:]]
        if befores != starts:
            raise Unreadable("a reduction from other initial values")
        if _counts(machine, op, starts):
            raise Unreadable("initial values that count")
    return [
        *(
            _read(first, number, view.layout, along)
            for number, view in enumerate(values)
        ),
        *starts,
    ]


def _counts(machine: Machine, op: Op, starts: Sequence[View]) -> bool:
    """Whether initial values may change something."""
    literals = [_literal(machine.classes.terms[view.node]) for view in starts]
    (reducer,) = op.signature.lambdas
    return any(run(reducer, literals) for run in _TRYING)


def _literal(term: ClassTerm) -> str | None:
    """How a number is spelled, if it is a known one."""
    if term.new or term.dims or term.kind not in ("affine", "constant"):
        return None
    return str(term.attrs if term.kind == "constant" else term.attrs[0])


def _is_guarded(machine: Machine, term: ClassTerm, op: Op) -> bool:
    """Whether tiles are reduced alike, but that their initial values don't count."""
    (reducer,), (own,) = term.attrs, op.signature.lambdas
    half = len(term.refs) // 2
    flags = [machine.classes.terms[term.refs[n].node] for n in (half - 1, -1)]
    known = [flag.attrs for flag in flags if flag.kind == "constant" and not flag.new]
    return known == ["true", "false"] and guards(reducer, own)


def _read(term: ClassTerm, number: int, layout: DigitLayout, along: int) -> View:
    """An operand of a reduction, as its result lies, with what is reduced behind."""
    ref = term.refs[number]

    def moved(items: Digits) -> list[Digit]:
        return [read_digit(term, ref, digit) for digit in items]

    local = [moved(items) for items in layout.local]
    local[along] += [read_special(term, ref, item) for item in term.specials[number]]
    axes = tuple(digits(moved(items)) for items in layout.axes)
    return View(ref.node, DigitLayout(tuple(map(digits, local)), axes))


def _start(term: ClassTerm, ref: Ref, layout: DigitLayout) -> View:
    """An initial value of a reduction, as each device has it."""
    local, axes = (
        [digits(read_digit(term, ref, digit) for digit in items) for items in labels]
        for labels in (layout.local, layout.axes)
    )
    if any(digit.dim != REPEATED for items in local for digit in items):
        raise Unreadable("tiles that are reduced from different initial values")
    return View(ref.node, DigitLayout((), tuple(axes)))


def read_digit(term: ClassTerm, ref: Ref, digit: Digit) -> Digit:
    """A digit of a class as one of what the class reads."""
    if digit.dim == REPEATED:
        return digit
    return _variable(term, ref, term.free[digit.dim], digit.stride, digit.size)


def read_special(term: ClassTerm, ref: Ref, item: Item) -> Digit:
    """A part of a dimension that an op runs along, as a digit of what it reads."""
    if isinstance(item, int):
        return _variable(term, ref, item, 1, term.sizes[item])
    name, size = item
    if name != "repeated":
        raise Unreadable("a reduction of rows in an order of their own")
    return Digit(REPEATED, 0, size)


def _variable(term: ClassTerm, ref: Ref, number: int, stride: int, size: int) -> Digit:
    """Where a variable is in a class that is read; of others, it repeats."""
    if term.sizes[number] <= 0:
        raise Unreadable("a reduction of made rows")
    for dim, held in enumerate(ref.dims):
        if number in held:
            for other in held[held.index(number) + 1 :]:
                stride *= term.sizes[other]
            return Digit(dim, stride, size)
    return Digit(REPEATED, 0, size)
