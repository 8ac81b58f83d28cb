"""Indices without what changes no place: conversions, and ends that ops have anyway.

``dynamic_slice`` and ``dynamic_update_slice`` move a start that is out of range to the
nearest in range. A program that has done so before says nothing more.
"""

from __future__ import annotations

from partir.verify.classes.classes import Classes
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.concrete import number_class
from partir.verify.layouts.layout import View
from partir.verify.machine.machine import Machine


def plain_index(machine: Machine, index: View) -> View:
    """An index without conversions that change no number."""
    term = machine.term(index)
    same = tuple((n,) for n in range(len(term.free)))
    while term.kind == "stablehlo.convert" and term.refs[0].dims == same:
        before = machine.classes.terms[term.refs[0].node]
        if not _holds(before.dtype, term.dtype):
            break
        index, term = View(term.refs[0].node, index.layout), before
        same = tuple((n,) for n in range(len(term.dims)))
    return index


def _holds(narrow: str, wide: str) -> bool:
    """Whether one type of integers has all numbers of another."""
    if any(t[0] not in "iu" or t == "i1" for t in (narrow, wide)):
        return False
    signs = narrow.startswith("u"), wide.startswith("u")
    bits = int(narrow.lstrip("ui")), int(wide.lstrip("ui"))
    return (
        bits[0] <= bits[1] if signs[0] == signs[1] else signs[0] and bits[0] < bits[1]
    )


def plain_start(machine: Machine, start: View, last: int) -> View:
    """Where a slice starts, if 0 and `last` are the nearest to what is out of range."""
    while True:
        start = plain_index(machine, start)
        number = _number(machine.classes, start.node)
        if number is not None:
            node = number_class(machine.classes, min(max(number, 0), last), "i64")
            return View(node, start.layout)
        inner = _before_ends(machine.classes, machine.term(start), last)
        if inner is None:
            return start
        start = View(inner, start.layout)


def _before_ends(classes: Classes, term: ClassTerm, last: int) -> int | None:
    """What was moved into a range that has all of 0 to `last`."""
    name = term.kind.removeprefix("stablehlo.")
    if name == "clamp":
        low, value, high = term.refs
        found = _number(classes, low.node), _number(classes, high.node)
    elif name in ("maximum", "minimum"):
        one, other = term.refs
        value, end = (
            (other, one) if _number(classes, one.node) is not None else (one, other)
        )
        number = _number(classes, end.node)
        found = (number, last) if name == "maximum" else (0, number)
    else:
        return None
    if any(classes.terms[ref.node].dims for ref in term.refs):
        return None
    low_end, high_end = found
    if low_end is None or high_end is None or low_end > 0 or high_end < last:
        return None
    return value.node


def _number(classes: Classes, node: int) -> int | None:
    """The integer that a class is."""
    term = classes.terms[node]
    if term.kind != "affine" or term.attrs[1]:
        return None
    return int(term.attrs[0])
