"""Windows as rows: each result's place has its own, along one more dimension.

A convolution is a product with what its windows show, a reduction over windows a
reduction of it. What a window shows outside of the value is a number that changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from partir.ir.attributes import integer, ints
from partir.ir.core import Op, Signature
from partir.ir.types import tensor
from partir.verify.classes.monoids import identity, keeps_type, monoid_of
from partir.verify.classes.repetition import counts_nothing
from partir.verify.classes.rows import GARBAGE, RowTable, fill, filled
from partir.verify.classes.terms import ClassTerm
from partir.verify.equations.products import conv_numbers
from partir.verify.equations.registry import rest
from partir.verify.joins.joins import JoinedPiece, joined, moved
from partir.verify.layouts.align import Equation, Label
from partir.verify.layouts.layout import (
    DigitLayout,
    Unreadable,
    View,
    reshaped,
    size_of,
)
from partir.verify.layouts.spread import MOST, shape_of
from partir.verify.machine.counting import count
from partir.verify.machine.machine import Machine, handler
from partir.verify.reductions.reductions import reduced, with_start


class WindowFacts(NamedTuple):
    """How windows run along one dimension."""

    size: int
    stride: int = 1
    apart: int = 1  # places of the value, that many apart
    dilated: int = 1  # rows of the window, that many apart
    low: int = 0
    high: int = 0

    def places(self, length: int) -> np.ndarray:
        """For each result and row of the window, a place of the value; -1 for none."""
        whole = (length - 1) * self.apart + 1 + self.low + self.high
        results = (whole - (self.size - 1) * self.dilated - 1) // self.stride + 1
        if results * self.size > MOST:
            raise Unreadable("windows of too many places to write out")
        first = np.arange(results)[:, None] * self.stride - self.low
        at = first + np.arange(self.size)[None, :] * self.dilated
        inside = (at >= 0) & (at % self.apart == 0) & (at // self.apart < length)
        return np.where(inside, at // self.apart, -1)


def windowed(
    machine: Machine, view: View, dim: int, window: WindowFacts, number: int
) -> View:
    """What windows along a dimension show, in one more dimension behind it."""
    places = window.places(size_of(view.layout.local[dim]))
    local = (*view.layout.local[: dim + 1], (), *view.layout.local[dim + 1 :])
    view = View(view.node, view.layout.with_local(local))
    axes = len(view.layout.axes)
    shape = list(shape_of(view.layout))
    shape[axes + dim], shape[axes + dim + 1] = places.shape
    spread = [1] * len(shape)
    spread[axes + dim], spread[axes + dim + 1] = places.shape
    at = places.reshape(spread)
    nothing = tuple(() for _ in local)
    other = View(number, DigitLayout(nothing, machine.alone))
    pieces = [JoinedPiece(view, at), JoinedPiece(other, at)]
    return joined(machine, pieces, np.where(at < 0, 1, 0), dim, shape)


def _one_nothing(machine: Machine, view: View, monoid: str, number: int) -> View:
    """A value with one number in place of rows that count nothing, whichever it was."""
    tables = []
    for dim, table in view.layout.tables:
        rows = table.rows
        for code in np.unique(rows[rows < GARBAGE]):
            if counts_nothing(machine.classes, monoid, filled(int(code))):
                rows = np.where(rows == code, fill(number), rows)
        tables.append((dim, RowTable(rows, table.size)))
    layout = DigitLayout(view.layout.local, view.layout.axes, tuple(tables))
    return View(view.node, layout)


def zero(machine: Machine, dtype: str) -> int:
    """The class of the number zero."""
    if dtype[0] in "iu" and dtype != "i1":
        return count(machine.classes, 0, (), dtype)
    literal = "false" if dtype == "i1" else "0.000000e+00"
    return machine.classes.of(ClassTerm("constant", literal, (), (), (), dtype=dtype))


def convolved_windows(signature: Signature) -> list[WindowFacts]:
    """The windows of a convolution, along each spatial dimension."""
    attrs, spatial = signature.attrs, len(signature.operands[0].shape) - 2
    ones = (1,) * spatial
    order = conv_numbers(attrs["dimension_numbers"])
    kernel = signature.operands[1].shape
    named = [
        ints(attrs[name]) if name in attrs else ones
        for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    ]
    padding = ints(attrs["padding"]) if "padding" in attrs else (0,) * 2 * spatial
    return [
        WindowFacts(
            kernel[order[1].index(str(s))],
            *(column[s] for column in (*named, padding[::2], padding[1::2])),
        )
        for s in range(spatial)
    ]


@handler("convolution")
def _convolution(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    """Products with what windows show; groups are dimensions of their own."""
    try:
        return [_product(machine, op.signature, *views)]
    except Unreadable as error:
        try:
            return machine.by_equation(op, views)
        except Unreadable:
            raise error from None


def _product(machine: Machine, signature: Signature, x: View, y: View) -> View:
    attrs = signature.attrs
    order = conv_numbers(attrs["dimension_numbers"])
    number = zero(machine, signature.operands[0].dtype)
    x = _one_nothing(machine, x, "sum", number)
    places, labels = list(order[0]), [*order[0]]
    windows = convolved_windows(signature)
    turned = attrs.get("window_reversal", "")
    for s, flag in enumerate(turned.partition(":")[2].rstrip(">").split(",")):
        if "true" in flag:
            y = _turned(machine, y, order[1].index(str(s)))
    for dim in sorted(range(len(places)), reverse=True):
        if places[dim].isdigit():
            x = windowed(machine, x, dim, windows[int(places[dim])], number)
            labels[dim : dim + 1] = [f"out {places[dim]}", f"tap {places[dim]}"]
    equation, shapes = _equation(signature, tuple(labels))
    x, y = (
        View(view.node, reshaped(view.layout, shape(view)))
        for view, shape in zip((x, y), shapes[:2], strict=True)
    )
    (made,) = machine.apply(
        equation, (x, y), (tensor(shapes[2], signature.results[0].dtype),)
    )
    return View(made.node, reshaped(made.layout, signature.results[0].shape))


def _turned(machine: Machine, view: View, dim: int) -> View:
    size, axes = size_of(view.layout.local[dim]), len(view.layout.axes)
    shape = [1] * (axes + len(view.layout.local))
    shape[axes + dim] = size
    at = np.arange(size - 1, -1, -1, dtype=np.int64).reshape(shape)
    return moved(machine, view, dim, at, size)


@lru_cache(maxsize=1024)
def _equation(
    signature: Signature, x_labels: tuple[str, ...]
) -> tuple[Equation, tuple[Any, Any, tuple[int, ...]]]:
    """The product's equation, and the shapes in which groups are apart."""
    attrs = signature.attrs
    order = conv_numbers(attrs["dimension_numbers"])
    groups = integer(attrs["feature_group_count"])
    batches = integer(attrs["batch_group_count"])
    y_labels = [f"tap {n}" if n.isdigit() else n for n in order[1]]
    out = [f"out {n}" if n.isdigit() else {"f": "o"}.get(n, n) for n in order[2]]
    count_ = max(groups, batches)
    of_x = {"f": "g" if groups > 1 else "", "b": "g" if batches > 1 else ""}
    of_y = {"o": "g" if count_ > 1 else ""}

    def apart(labels: Sequence[str], parts: dict[str, str]) -> tuple[Label, ...]:
        named = [{"i": "f"}.get(n, n) for n in labels]
        return tuple(
            x for n in named for x in ((parts.get(n), n) if parts.get(n) else (n,))
        )

    def shape(labels: Sequence[str], parts: dict[str, str]) -> Any:
        def of(view: View) -> tuple[int, ...]:
            return _split(
                [size_of(h) for h in view.layout.local], labels, parts, count_
            )

        return of

    equation = Equation(
        signature.kind,
        (apart(x_labels, of_x), apart(y_labels, of_y)),
        (apart(out, of_y),),
        rest({k: v for k, v in attrs.items() if k == "precision_config"}),
    )
    result = _split(signature.results[0].shape, out, of_y, count_)
    return equation, (shape(x_labels, of_x), shape(y_labels, of_y), result)


def _split(
    sizes: Sequence[int], labels: Sequence[str], parts: dict[str, str], count_: int
) -> tuple[int, ...]:
    return tuple(
        n
        for size, label in zip(sizes, labels, strict=True)
        for n in ((count_, size // count_) if parts.get(label) else (size,))
    )


@handler("reduce_window")
def _reduce_window(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    """Reductions with a name, of what windows show."""
    try:
        return [_reduced(machine, op.signature, views)]
    except Unreadable as error:
        try:
            return machine.by_equation(op, views)
        except Unreadable:
            raise error from None


def reduce_windows(signature: Signature) -> list[WindowFacts]:
    """The windows of a reduction, along each dimension."""
    attrs, rank = signature.attrs, len(signature.operands[0].shape)
    sizes = ints(attrs["window_dimensions"])
    named = [
        ints(attrs[name]) if name in attrs else (1,) * rank
        for name in ("window_strides", "base_dilations", "window_dilations")
    ]
    padding = ints(attrs["padding"]) if "padding" in attrs else (0,) * 2 * rank
    return [
        WindowFacts(sizes[d], *(c[d] for c in (*named, padding[::2], padding[1::2])))
        for d in range(rank)
    ]


def _reduced(machine: Machine, signature: Signature, views: tuple[View, ...]) -> View:
    monoid = monoid_of(signature.lambdas[0]) if len(views) == 2 else None
    if monoid is None or not keeps_type(signature):
        raise Unreadable("a reduction over windows that has no name")
    view, start = views
    (type_,) = signature.results
    if counts_nothing(machine.classes, monoid, start.node):
        return _over_windows(machine, signature, monoid, view, start.node)
    literal = identity(monoid, type_.dtype)
    if literal is None:
        raise Unreadable("a reduction over windows that starts from what counts")
    nothing = machine.number(literal, type_).node
    made = _over_windows(machine, signature, monoid, view, nothing)
    return with_start(machine, monoid, made, start, type_)


def _over_windows(
    machine: Machine, signature: Signature, monoid: str, view: View, number: int
) -> View:
    """A reduction of what windows show, and of a number that changes nothing."""
    view = _one_nothing(machine, view, monoid, number)
    kept: list[int] = []
    for dim, window in reversed([*enumerate(reduce_windows(signature))]):
        if window != WindowFacts(1):
            view = windowed(machine, view, dim, window, number)
            kept = [dim, *(d + 1 for d in kept)]
        else:
            kept = [dim, *kept]
    return reduced(machine, monoid, view, tuple(kept), signature.results[0].shape)
