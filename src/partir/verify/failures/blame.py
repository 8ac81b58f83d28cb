"""Which op a difference comes from, and how to say what differs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from partir.ir.core import Op
from partir.verify.classes.terms import ClassTerm
from partir.verify.identities.sums import REDUCE
from partir.verify.layouts.concrete import KNOWN
from partir.verify.layouts.layout import Unreadable, View, depends_on, size_of
from partir.verify.machine.machine import SLIPS, Known, Machine
from partir.verify.reductions.reductions import reduced_over_axes

_COUNTS = frozenset({"affine", KNOWN})  # where devices are, which no source says
_LOOKED_AT = 60  # classes, before the last of them is blamed
_MONOIDS = ("sum", "max", "min", "and", "or", "product")


class BlamedPart(NamedTuple):
    """A value that devices hold parts of: reduced over these axes it is the view."""

    monoid: str
    axes: tuple[str, ...]
    whole: View


def strange(machine: Machine, node: int) -> list[int]:
    """Classes that a class is made of and the source does not have, in their order."""
    classes = machine.classes
    found, left = {node}, [node]
    while left:
        for ref in classes.terms[left.pop()].refs:
            if not classes.in_source(ref.node) and ref.node not in found:
                found.add(ref.node)
                left.append(ref.node)
    return sorted(found)


def blamed(machine: Machine, node: int) -> tuple[int, View | None]:
    """The first strange class that is no part of something in the source."""
    last = node
    for other in strange(machine, node)[:_LOOKED_AT]:
        op = machine.origins.get(other)
        if op is None or machine.classes.terms[other].kind in _COUNTS:
            continue
        last = other
        if not any(part_of(machine, view) for view in _made(machine, op, other)):
            break
    op = machine.origins.get(last)
    views = _made(machine, op, last) if op is not None else []
    return last, next(iter(views), None)


def _made(machine: Machine, op: int, node: int) -> list[View]:
    """Results of an op that show a class."""
    known = (machine.env.get(v) for v in machine.program.ops[op].results)
    return [view for view in known if isinstance(view, View) and view.node == node]


def part_of(machine: Machine, view: View) -> BlamedPart | None:
    """What a value is a part of, if the source has that."""
    depends = [a for a in range(len(machine.sizes)) if depends_on(view.layout, a)]
    shape = [size_of(held) for held in view.layout.local]
    for monoid, axes in itertools.product(_MONOIDS, _subsets(depends)):
        try:
            whole = reduced_over_axes(machine, monoid, view, axes, shape)
        except (Unreadable, *SLIPS):  # no part that can be read
            continue
        if machine.classes.in_source(whole.node):
            names = tuple(machine.names[axis] for axis in axes)
            return BlamedPart(monoid, names, whole)
    return None


def _subsets(axes: list[int]) -> Iterator[tuple[int, ...]]:
    for count in range(1, len(axes) + 1):
        yield from itertools.combinations(axes, count)


def described(term: ClassTerm) -> str:
    """A class in a few words: its op and sizes."""
    name = term.kind.rpartition(".")[2].replace("picked", "rows of what is made")
    if term.kind == REDUCE:
        bound = [str(n) for v, n in enumerate(term.sizes) if v not in term.free]
        name = f"{term.attrs} over {' x '.join(bound)}"
    sizes = ",".join(str(n) if n > 0 else "rows" for n in term.dims)
    return f"{name} {term.dtype}[{sizes}]"


def layout_text(machine: Machine, view: View) -> str:
    """How a view is laid out: for every axis, what it counts."""
    parts = []
    for name, held in zip(machine.names, view.layout.axes, strict=True):
        parts += [
            f"{name}: dimension {digit.dim} by {digit.stride}"
            for digit in held
            if digit.dim >= 0
        ]
    return "; ".join(parts) or "whole on all devices"


def value_text(machine: Machine, known: Known | None) -> str:
    """What a value is: a tile, a part of a reduction, or all of what."""
    if not isinstance(known, View):
        return "not known" if known is None else f"not known: {known.reason}"
    part = None if machine.classes.in_source(known.node) else part_of(machine, known)
    if part is not None:
        what = described(machine.classes.terms[part.whole.node])
        return f"a partial {part.monoid} over {', '.join(part.axes)} of {what}"
    what = described(machine.classes.terms[known.node])
    tiled = [
        name
        for axis, name in enumerate(machine.names)
        if depends_on(known.layout, axis)
    ]
    return f"a tile over {', '.join(tiled)} of {what}" if tiled else f"the whole {what}"


def difference(machine: Machine, op: Op) -> str:
    """What an op reads that the source's does not."""
    parts = []
    for value in op.operands:
        known = machine.env.get(value)
        if isinstance(known, View) and not machine.classes.in_source(known.node):
            parts.append(f"reads {value_text(machine, known)}, should be the whole")
    if parts:
        return f"{op.signature.name} {parts[0]}"
    if not op.operands:
        return f"the source has no such {op.signature.name}"
    texts = [value_text(machine, machine.env.get(value)) for value in op.operands]
    return f"the source has no {op.signature.name} of {' and '.join(texts)}"
