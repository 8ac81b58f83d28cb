"""Slices, at places that are known, that a device's coordinates give, or computed."""

from __future__ import annotations

from functools import lru_cache

from partir.ir.core import Op
from partir.ir.types import tensor
from partir.verify.layouts.align import Equation
from partir.verify.layouts.layout import (
    REPEATED,
    DigitLayout,
    Digits,
    Unreadable,
    View,
    depends_on,
    digits,
    repeated,
    size_of,
    split_off,
)
from partir.verify.machine.counting import read_count
from partir.verify.machine.indices import plain_start
from partir.verify.machine.machine import Machine


def _is_repeated(items: Digits) -> bool:
    return all(digit.dim == REPEATED for digit in items)


def cut(machine: Machine, view: View, dim: int, start: int, size: int) -> View:
    """Rows of one dimension from a known place on."""
    held = view.layout.local[dim]
    if size == size_of(held):
        return view
    if _is_repeated(held):
        local = list(view.layout.local)
        local[dim] = repeated(size)
        return View(view.node, view.layout.with_local(local))
    labels = tuple(range(len(view.layout.local)))
    result = tuple("out" if d == dim else d for d in labels)
    edges = ((start, start + size, 1),)
    equation = Equation("stablehlo.slice", (labels,), (result,), edges, (dim,))
    shape = tuple(
        size if d == dim else size_of(h) for d, h in enumerate(view.layout.local)
    )
    dtype = machine.term(view).dtype
    return _applied(machine, equation, view, shape, dtype)


def _applied(
    machine: Machine, equation: Equation, view: View, shape: tuple[int, ...], dtype: str
) -> View:
    (made,) = machine.apply(equation, (view,), (tensor(shape, dtype),))
    return made


def dynamic_slice(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """Static where the start is a number, a tile where it is a device's place."""
    value, *starts = views
    sizes = op.signature.results[0].shape
    left = []
    for dim, size in enumerate(sizes):
        made = _read_at(machine, value, dim, size, starts[dim])
        if made is None:
            left.append(dim)
        else:
            value = made
    if not left:
        return [value]
    labels = tuple(("in", d) if d in left else d for d in range(len(sizes)))
    result = tuple(("out", d) if d in left else d for d in range(len(sizes)))
    equation = _dynamic(labels, result, tuple(sizes[d] for d in left))
    held = [size_of(items) for items in value.layout.local]
    views = (
        value,
        *(plain_start(machine, starts[d], held[d] - sizes[d]) for d in left),
    )
    return machine.apply(equation, views, op.signature.results)


@lru_cache(maxsize=1024)
def _dynamic(
    labels: tuple[object, ...], result: tuple[object, ...], sizes: tuple[int, ...]
) -> Equation:
    special = tuple(label for label in labels if isinstance(label, tuple))
    operands = (labels, *((),) * len(sizes))
    return Equation("stablehlo.dynamic_slice", operands, (result,), sizes, special)


def _read_at(
    machine: Machine, value: View, dim: int, size: int, start: View
) -> View | None:
    held = value.layout.local[dim]
    whole = size_of(held)
    if whole == size or _is_repeated(held):
        return cut(machine, value, dim, 0, size)
    term = machine.term(start)
    read = None if start.layout.tables else read_count(term)
    if read is None:
        return None
    first, steps = read
    if not steps:
        return cut(machine, value, dim, min(max(first, 0), whole - size), size)
    total = term.sizes[0] * size
    fits = first >= 0 and first + total <= whole
    if steps != (size,) or not fits:
        return None
    return _tile(cut(machine, value, dim, first, total), dim, size, start.layout)


def _tile(value: View, dim: int, size: int, start: DigitLayout) -> View | None:
    """The tile of a dimension that the digits of mesh axes in `start` count."""
    layout = value.layout
    local, axes = list(layout.local), list(layout.axes)
    try:
        inner, outer = split_off(local[dim], size)
        for axis, items in enumerate(start.axes):
            if _is_repeated(items):
                continue
            if depends_on(layout, axis):
                return None
            found = []
            for digit in items:
                if digit.dim == REPEATED:
                    return None
                _, rest = split_off(outer, digit.stride)
                found += split_off(rest, digit.size)[0]
            axes[axis] = digits(found)
    except Unreadable:
        return None
    local[dim] = digits(inner)
    return View(value.node, DigitLayout(tuple(local), tuple(axes), layout.tables))
