"""Reductions over windows, and what their gradients are made of."""

from __future__ import annotations

from partir.ir.attributes import ints
from partir.ir.core import Signature
from partir.verify.equations.registry import equation
from partir.verify.layouts.align import Equation, Label


@equation("reduce_window")
def _reduce_window(signature: Signature) -> Equation:
    """Dimensions whose windows are single elements are free."""
    count = len(signature.operands) // 2
    moved, key = _windows(signature)
    labels = tuple(range(len(signature.operands[0].shape)))
    operands: list[tuple[Label, ...]] = []
    special: list[Label] = []
    for number in range(count):
        operands.append(tuple(("in", number, d) if d in moved else d for d in labels))
        special += [("in", number, d) for d in moved]
    result = tuple(("out", d) if d in moved else d for d in labels)
    return Equation(
        signature.kind,
        (*operands, *((),) * count),
        (result,) * count,
        (key, signature.lambdas),
        tuple(special),
    )


@equation("select_and_scatter")
def _select_and_scatter(signature: Signature) -> Equation:
    """Dimensions whose windows are single elements are free."""
    moved, key = _windows(signature)
    labels = tuple(range(len(signature.operands[0].shape)))
    value, source, result = (
        tuple((name, d) if d in moved else d for d in labels)
        for name in ("in", "from", "out")
    )
    special = (*(("in", d) for d in moved), *(("from", d) for d in moved))
    return Equation(
        signature.kind,
        (value, source, ()),
        (result,),
        (key, signature.lambdas),
        special,
    )


def _windows(signature: Signature) -> tuple[tuple[int, ...], tuple[object, ...]]:
    """Dimensions with windows, and what they are there."""
    attrs = signature.attrs
    rank = len(signature.operands[0].shape)
    numbers = [ints(attrs["window_dimensions"])]
    for name in ("window_strides", "base_dilations", "window_dilations"):
        numbers.append(ints(attrs[name]) if name in attrs else (1,) * rank)
    padding = ints(attrs["padding"]) if "padding" in attrs else (0,) * 2 * rank
    rows = [
        (*(column[d] for column in numbers), padding[2 * d], padding[2 * d + 1])
        for d in range(rank)
    ]
    moved = tuple(d for d in range(rank) if rows[d] != (1, 1, 1, 1, 0, 0))
    return moved, tuple(rows[d] for d in moved)
