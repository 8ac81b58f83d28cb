"""`Plan`: an equation on operands laid out in one way, all but the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from partir.ir.types import TensorType
from partir.verify.classes.classes import Classes
from partir.verify.classes.finite import finite_beside
from partir.verify.classes.repetition import counts_nothing
from partir.verify.classes.rows import (
    BAG,
    DROPPED,
    FIRST_FILLED,
    GARBAGE,
    Rows,
    RowTable,
    fill,
    filled,
)
from partir.verify.classes.terms import (
    BOUND,
    ClassTerm,
    Numbered,
    Ref,
    TermForm,
    Use,
    Where,
    numbered,
)
from partir.verify.identities.sums import CONTRACTIONS
from partir.verify.layouts.align import NO_TABLES, Alignment, Equation
from partir.verify.layouts.components import Component, components, show, tied
from partir.verify.layouts.layout import DigitLayout, Unreadable


class Plan(NamedTuple):
    """The forms of terms, and the layouts of results."""

    dims: tuple[tuple[tuple[int, ...], ...], ...]
    results: tuple[tuple[int, DigitLayout], ...]  # the term's form, by number
    repeats: int


class Outline(NamedTuple):
    """All of a plan that its labels and layouts decide, whatever the op."""

    made: Numbered
    results: tuple[tuple[DigitLayout, tuple[int, ...]], ...]  # and new sizes
    repeats: int


def make_plan(
    classes: Classes,
    equation: Equation,
    layouts: tuple[DigitLayout, ...],
    types: Sequence[TensorType],
    outlines: dict[Any, Outline],
) -> Plan:
    """Put operands side by side, and number what they have in common."""
    if not layouts:
        raise Unreadable("an op without operands")
    shapes = tuple([type_.shape for type_ in types])
    key = (equation.labels, layouts, shapes)
    known = outlines.get(key)
    if known is None:
        aligned = Alignment(equation, layouts)
        parts = components(layouts, aligned.refs, aligned.use)
        if parts:
            return _with_rows(classes, equation, aligned, parts, types)
        made = numbered(aligned.refs, aligned.use)
        known = outlines[key] = _outline(aligned, made, shapes, made.where())
    return _plan(classes, equation, known, types)


def _outline(
    aligned: Alignment,
    made: Numbered,
    shapes: Sequence[tuple[int, ...]],
    where: Where,
    tables: Mapping[int, RowTable] = NO_TABLES,
) -> Outline:
    free = len(made.free)
    results = [
        aligned.result(number, shape, where, free, tables)
        for number, shape in enumerate(shapes)
    ]
    return Outline(made, tuple(results), aligned.repeats())


def _plan(
    classes: Classes, equation: Equation, outline: Outline, types: Sequence[TensorType]
) -> Plan:
    made, found = outline.made, []
    for number, (layout, new) in enumerate(outline.results):
        form = TermForm(
            equation.kind,
            equation.attrs,
            made.dims,
            made.sizes,
            made.free,
            made.specials,
            new,
            types[number].dtype,
            number,
        )
        found.append((classes.form(form), layout))
    return Plan(made.dims, tuple(found), outline.repeats)


def _with_rows(
    classes: Classes,
    equation: Equation,
    aligned: Alignment,
    parts: Sequence[Component],
    types: Sequence[TensorType],
) -> Plan:
    """The same where tables say which rows are read."""
    found = [_rows(classes, aligned, part, types) for part in parts]
    sizes = [size for _, size in found]
    refs, use = tied(aligned.refs, aligned.use, parts, sizes)
    roles = dict(use.roles)
    for part, size in zip(parts, sizes, strict=True):
        if part.bound and size != BAG:
            roles[part.variable] = BOUND
    made = numbered(refs, Use(use.sizes, roles, use.specials))
    where, tables = dict(made.where()), dict[int, RowTable]()
    for part, (rows, size) in zip(parts, found, strict=True):
        show(part, rows, size, aligned.use, where, tables)
    shapes = [type_.shape for type_ in types]
    outline = _outline(aligned, made, shapes, where, tables)
    return _plan(classes, equation, outline, types)


def _rows(
    classes: Classes, aligned: Alignment, part: Component, types: Sequence[TensorType]
) -> tuple[Rows, int]:
    """What a component's variable is at its free places, and its size."""
    made, equation = classes.rows, aligned.equation
    if not part.bound:
        rows = made.tuples(part.columns[:, 0])
        if not aligned.bound:  # else it counts how many numbers are added up
            rows = _scalars(classes, equation, part, rows, types)
        return rows, part.size
    monoid, nothing = _added_up(equation)
    return bagged(classes, part, monoid, nothing)


def _added_up(equation: Equation) -> tuple[str, frozenset[int]]:
    """How an op reduces; operands that, being the monoid's identity, count nothing."""
    if equation.kind in CONTRACTIONS:
        return "sum", frozenset((0, 1))
    if equation.kind == "stablehlo.scatter":
        monoid = equation.attrs[0]  # type: ignore[index]  # as equations make it
        if isinstance(monoid, str):
            return monoid, frozenset((2,))
    raise Unreadable("a reduction over rows that are not all there")


def bagged(
    classes: Classes, part: Component, monoid: str, nothing: frozenset[int]
) -> tuple[Rows, int]:
    """Bags of what an op reduces; a plain size if all rows are there, once each."""
    made = classes.rows
    members = made.tuples(part.columns)
    counted = [n for n, (ref, _) in enumerate(part.mentions) if ref in nothing]
    columns = part.columns[..., counted]
    for code in np.unique(columns[columns < GARBAGE]):
        if counts_nothing(classes, monoid, filled(int(code))):
            gone = (columns == code).any(-1)
            if len(nothing) > 1:  # zero times what is not known may be nan
                gone &= (part.columns != GARBAGE).all(-1)
                gone &= finite_beside(classes, part.columns)
            members[gone] = DROPPED
    rows = made.bags(members)
    if part.size > 0 and made.complete(rows, part.size):
        return rows, part.size
    return rows, BAG


def _scalars(
    classes: Classes,
    equation: Equation,
    part: Component,
    rows: Rows,
    types: Sequence[TensorType],
) -> Rows:
    """Where all operands are numbers in place of rows, the result is a number, too."""
    if {ref for ref, _ in part.mentions} != {*range(len(equation.operands))}:
        return rows
    if (
        equation.special
        or equation.groups
        or len(types) != 1
        or len(part.mentions) > len(equation.operands)
    ):
        return rows
    codes = part.columns[:, 0]
    rows = rows.copy()
    for place in np.nonzero((codes < GARBAGE).all(-1))[0]:
        refs = tuple(Ref(filled(int(code)), ()) for code in codes[place])
        term = ClassTerm(
            equation.kind, equation.attrs, refs, (), (), dtype=types[0].dtype
        )
        rows[place] = fill(classes.of(term))
    assert not ((rows >= FIRST_FILLED) & (codes < GARBAGE).all(-1)).any()
    return rows
