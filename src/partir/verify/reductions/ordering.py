"""Floats as integers in the same order, as a maximum over devices carries them.

*ordered*: ``order(x)`` is x's bits, turned round for negative numbers, and the end that
wins for nan. It keeps the order, so that maxima and minima move past it; turned back,
it is x again.
"""

from __future__ import annotations

from partir.ir.core import Op
from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import FIRST_FILLED, RowTable
from partir.verify.classes.terms import ClassTerm, Ref
from partir.verify.equations.elementwise import COMMUTING
from partir.verify.layouts.layout import DigitLayout, View
from partir.verify.machine.machine import Machine, handler

ORDERED = "ordered"


def _plain(term: ClassTerm) -> bool:
    """Whether all operands are read at the same place as the result."""
    same = tuple((number,) for number in range(len(term.free)))
    return not term.new and all(ref.dims in (same, ()) for ref in term.refs)


def _number(classes: Classes, ref: Ref) -> int | None:
    """The integer that a class is."""
    term = classes.terms[ref.node]
    if term.kind != "affine" or term.attrs[1]:
        return None
    return int(term.attrs[0])


def _operands(classes: Classes, node: int, kind: str) -> tuple[Ref, ...] | None:
    term = classes.terms[node]
    if term.kind != f"stablehlo.{kind}" or not _plain(term):
        return None
    return term.refs


def _with_number(classes: Classes, node: int, kind: str, number: int) -> int | None:
    """The other operand of an op one of whose operands is this number.

    That is the second one, unless they come in no order.
    """
    refs = _operands(classes, node, kind)
    if refs is None or len(refs) != 2:
        return None
    ways = (refs, refs[::-1]) if f"stablehlo.{kind}" in COMMUTING else (refs,)
    for one, other in ways:
        if _number(classes, other) == number:
            return one.node
    return None


def _turned(classes: Classes, node: int, width: int) -> int | None:
    """``b`` if a class is ``b ^ ((b >> width - 1) & rest)``."""
    refs = _operands(classes, node, "xor") or ()
    for bits, sign in (refs, refs[::-1]) if len(refs) == 2 else ():
        rest = (1 << (width - 1)) - 1
        shifted = _with_number(classes, sign.node, "and", rest)
        if shifted is None:
            continue
        kind = "shift_right_arithmetic"
        if _with_number(classes, shifted, kind, width - 1) == bits.node:
            return bits.node
    return None


def _width(dtype: str) -> int:
    return int(dtype.lstrip("bfiu"))


def ordered(machine: Machine, made: list[View]) -> list[View]:
    """Choices, those that are ``order(x)`` as such."""
    found = []
    for view in made:
        node = _ordered(machine.classes, view.node)
        layout = node and _of_inner(machine.classes, view.layout, 2)
        found.append(View(node, layout) if node and layout else view)
    return found


def _of_inner(classes: Classes, layout: DigitLayout, depth: int) -> DigitLayout | None:
    """A layout of what ops of two operands make of one value, as that of the value.

    Both read the same row, so that its number is in each tuple of theirs.
    """
    tables = []
    for dim, table in layout.tables:
        rows = table.rows
        for _ in range(depth):
            if (rows >= FIRST_FILLED).any():
                return None
            columns = classes.rows.columns(rows, 2)
            if (columns[..., 0] != columns[..., 1]).any():
                return None
            rows = columns[..., 0]
        tables.append((dim, RowTable(rows, table.size)))
    return DigitLayout(layout.local, layout.axes, tuple(tables))


def _ordered(classes: Classes, node: int) -> int | None:
    """``order(x)`` in place of how it is computed."""
    if classes.terms[node].dtype not in ("i16", "i32", "i64"):
        return None
    refs = _operands(classes, node, "select")
    if refs is None:
        return None
    width = _width(classes.terms[node].dtype)
    end, limit = _number(classes, refs[1]), 1 << (width - 1)
    bits = _turned(classes, refs[2].node, width)
    inner = None if bits is None else _operands(classes, bits, "bitcast_convert")
    nan = _operands(classes, refs[0].node, "compare")
    if end not in (limit - 1, -limit) or inner is None or nan is None:
        return None
    compared = str(classes.terms[refs[0].node].attrs)
    unequal = "comparison_direction NE" in compared and "TOTALORDER" not in compared
    (x,) = inner
    if classes.terms[x.node].dtype not in ("f16", "bf16", "f32", "f64"):
        return None
    if not unequal or any(ref.node != x.node for ref in nan):
        return None
    monoid = "max" if end == limit - 1 else "min"
    term = classes.terms[node]._replace(kind=ORDERED, attrs=monoid, refs=(x,))
    return classes.of(term)


@handler("bitcast_convert")
def _bits(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    (made,) = machine.by_equation(op, views)
    classes = machine.classes
    refs = _operands(classes, made.node, "bitcast_convert")
    if refs is None:
        return [made]
    before = classes.terms[refs[0].node]
    if before.kind == "stablehlo.bitcast_convert" and _plain(before):  # there and back
        (inner,) = before.refs
        was = classes.terms[inner.node]
        now = classes.terms[made.node]
        if (was.dtype, was.dims) == (now.dtype, now.dims):
            return [View(inner.node, made.layout)]
    if before.dtype not in ("i16", "i32", "i64"):
        return [made]
    order = _turned(classes, refs[0].node, _width(before.dtype))
    if order is None or classes.terms[order].kind != ORDERED:
        return [made]
    (x,) = classes.terms[order].refs
    was, now = classes.terms[x.node], classes.terms[made.node]
    same = (was.dtype, was.dims) == (now.dtype, now.dims)
    layout = _of_inner(classes, made.layout, 1) if same else None
    return [made] if layout is None else [View(x.node, layout)]
