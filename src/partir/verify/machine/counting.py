"""Integers that count: ``first + sum of step * index``, exact as long as they fit.

A device's number is one, and so is what a program makes of iotas: where a tile begins
follows from arithmetic, as the program does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from partir.ir.core import Op, Signature
from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import GARBAGE, RowTable, fill, filled
from partir.verify.classes.terms import ClassTerm, Ref, Variable
from partir.verify.identities.widening import narrow_again
from partir.verify.layouts.align import Alignment
from partir.verify.layouts.layout import Digit, DigitLayout, Unreadable, View, repeated
from partir.verify.layouts.spread import with_table
from partir.verify.machine.again import equations
from partir.verify.machine.machine import Machine, handler

AFFINE = "affine"
Steps = tuple[tuple[int, int], ...]  # step and size of each dimension


class Count(NamedTuple):
    """An affine function of variables."""

    first: int
    steps: dict[Variable, int]
    sizes: Mapping[Variable, int]

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest number."""
        spans = [step * (self.sizes[v] - 1) for v, step in self.steps.items()]
        low = self.first + sum(span for span in spans if span < 0)
        return low, self.first + sum(span for span in spans if span > 0)


def count(classes: Classes, first: int, steps: Steps, dtype: str) -> int:
    """The class of an affine function; a single number has no steps."""
    steps = tuple(step for step in steps if step[0] and step[1] > 1)
    sizes = tuple(size for _, size in steps)
    attrs = (first, tuple(step for step, _ in steps))
    return classes.of(
        ClassTerm(AFFINE, attrs, (), sizes, tuple(range(len(sizes))), dtype=dtype)
    )


def read_count(term: ClassTerm) -> tuple[int, tuple[int, ...]] | None:
    """First number and steps of a class that counts."""
    if term.kind != AFFINE:
        return None
    first, steps = term.attrs
    return first, steps


def fits(dtype: str, low: int, high: int) -> bool:
    """Whether an integer type holds these numbers."""
    bits = int(dtype.lstrip("ui"))
    if dtype.startswith("u"):
        return low >= 0 and high < 1 << bits
    return low >= -(1 << (bits - 1)) and high < 1 << (bits - 1)


def _counts(
    machine: Machine, aligned: Alignment, views: tuple[View, ...]
) -> list[Count]:
    found = []
    for view, dims in zip(views, aligned.refs, strict=True):
        read = read_count(machine.term(view))
        if read is None:
            raise Unreadable("no count")
        first, steps = read
        made: dict[Variable, int] = {}
        for step, dim in zip(steps, dims, strict=True):
            for variable in reversed(dim):
                made[variable] = step
                step *= aligned.use.sizes[variable]
        found.append(Count(first, made, aligned.use.sizes))
    return found


def _shown(
    machine: Machine, op: Op, aligned: Alignment, made: Count
) -> list[View] | None:
    """The class of an affine function, its variables joined where they continue."""
    (type_,) = op.signature.results
    if not fits(type_.dtype, *made.range):
        return None
    order = sorted(
        ((step, made.sizes[v], v) for v, step in made.steps.items() if step),
        key=lambda item: (-abs(item[0]), item[1], str(item[2])),
    )
    steps: list[tuple[int, int]] = []
    inner: list[list[Variable]] = []
    for step, size, variable in order:
        if steps and steps[-1][0] == step * size:
            steps[-1] = (step, steps[-1][1] * size)
            inner[-1].append(variable)
        else:
            steps.append((step, size))
            inner.append([variable])
    where = {}
    for dim, variables in enumerate(inner):
        stride = 1
        for variable in reversed(variables):
            where[variable] = (dim, stride)
            stride *= made.sizes[variable]
    node = count(machine.classes, made.first, tuple(steps), type_.dtype)
    layout, _ = aligned.result(0, type_.shape, where, 0)
    return [View(node, layout)]


def arithmetic(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View] | None:
    """The result of arithmetic on counts, if it counts, too."""
    (type_,) = op.signature.results
    if type_.dtype[0] not in "iu" or type_.dtype == "i1":
        return None
    run = _ARITHMETIC.get(op.signature.name)
    if run is None or any(not _is_count(machine, view) for view in views):
        return None
    rank = len(type_.shape)
    layouts = [view.layout for view in views]
    aligned = machine.aligned(layouts, rank, tuple(range(rank)))
    made = run(*_counts(machine, aligned, views))
    return None if made is None else _shown(machine, op, aligned, made)


def _added(x: Count, y: Count, sign: int = 1) -> Count:
    steps = dict(x.steps)
    for variable, step in y.steps.items():
        steps[variable] = steps.get(variable, 0) + sign * step
    return Count(x.first + sign * y.first, steps, x.sizes)


def _subtracted(x: Count, y: Count) -> Count:
    return _added(x, y, -1)


def _scaled(x: Count, y: Count) -> Count | None:
    if x.steps and y.steps:
        return None
    x, y = (y, x) if y.steps else (x, y)
    steps = {v: step * y.first for v, step in x.steps.items()}
    return Count(x.first * y.first, steps, x.sizes)


def _negated(x: Count) -> Count:
    return _scaled(x, Count(-1, {}, {}))  # type: ignore[return-value]  # never None


def _divided(x: Count, y: Count) -> tuple[Count, Count] | None:
    """Quotient and remainder by a positive number, if every step is in one of them."""
    by = y.first
    if y.steps or by < 1 or x.range[0] < 0:
        return None
    high = {v: step // by for v, step in x.steps.items() if step % by == 0}
    low = {v: step for v, step in x.steps.items() if step % by}
    quotient = Count(x.first // by, high, x.sizes)
    remainder = Count(x.first % by, low, x.sizes)
    if remainder.range[0] < 0 or remainder.range[1] >= by:
        return None
    return quotient, remainder


def _quotient(x: Count, y: Count) -> Count | None:
    found = _divided(x, y)
    return found and found[0]


def _remainder(x: Count, y: Count) -> Count | None:
    found = _divided(x, y)
    return found and found[1]


def _larger(x: Count, y: Count) -> Count | None:
    low, high = _subtracted(x, y).range
    return x if low >= 0 else y if high <= 0 else None


def _smaller(x: Count, y: Count) -> Count | None:
    low, high = _subtracted(x, y).range
    return y if low >= 0 else x if high <= 0 else None


_ARITHMETIC: dict[str, Callable[..., Count | None]] = {
    "add": _added,
    "subtract": _subtracted,
    "multiply": _scaled,
    "negate": _negated,
    "divide": _quotient,
    "remainder": _remainder,
    "maximum": _larger,
    "minimum": _smaller,
    "convert": lambda x: x,
}


def as_in_source(classes: Classes, view: View) -> View:
    """Counts, as those of the source that begin or end elsewhere; others as they are.

    What the source does not count is not known: it is garbage.
    """
    term = classes.terms[view.node]
    if term.kind != AFFINE or classes.in_source(view.node) or view.layout.tables:
        return view
    (first, steps), sizes = term.attrs, term.sizes
    if len(steps) != 1 or steps[0] == 0:
        return view
    best, found = 0, view
    for node in classes.counts.get((steps[0], term.dtype), ()):
        begin, size = classes.terms[node].attrs[0], classes.terms[node].sizes[0]
        if (first - begin) % steps[0]:
            continue
        rows = (first - begin) // steps[0] + np.arange(sizes[0])
        inside = (rows >= 0) & (rows < size)
        if inside.sum() > best:
            best, table = int(inside.sum()), np.where(inside, rows, GARBAGE)
            layout = with_table(view.layout, 0, RowTable(table, size))
            found = View(node, layout)
    return found


def converted(classes: Classes, node: int, dtype: str) -> int:
    """Counts in another type: from whatever type of integers, these are the same."""
    term = classes.terms[node]
    counts = classes.of(term._replace(dtype="i64"))
    variables = tuple((number,) for number in range(len(term.sizes)))
    return classes.of(
        ClassTerm(
            "stablehlo.convert",
            ((), "i64"),
            (Ref(counts, variables),),
            term.sizes,
            term.free,
            dtype=dtype,
        )
    )


def _numbers_as_floats(
    classes: Classes, layout: DigitLayout, dtype: str
) -> DigitLayout:
    """Numbers in place of counts are of the new type, too."""
    tables = []
    for dim, table in layout.tables:
        rows = table.rows.copy()
        for code in np.unique(rows[rows < GARBAGE]):
            number = filled(int(code))
            if classes.terms[number].kind != AFFINE:
                raise Unreadable("a number in place of a count that is no count")
            rows[table.rows == code] = fill(converted(classes, number, dtype))
        tables.append((dim, RowTable(rows, table.size)))
    return DigitLayout(layout.local, layout.axes, tuple(tables))


@equations(*_ARITHMETIC)
def _is_no_arithmetic(signature: Signature) -> bool:
    """Floats don't count, unless they are converted from what does."""
    dtype = signature.results[0].dtype
    counts = dtype[0] in "iu" and dtype != "i1"
    return not counts and signature.name != "convert"


@handler(*_ARITHMETIC)
def _arithmetic(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    if op.signature.name == "convert":
        (before,), (after,) = op.signature.operands, op.signature.results
        if before == after:
            return list(views)
        narrow = narrow_again(machine.classes, views[0], after.dtype)
        if narrow is not None:
            return [narrow]
        if after.dtype[0] in "fb" and machine.term(views[0]).kind == AFFINE:
            wide = machine.term(views[0])._replace(dtype="i64")
            view = View(machine.classes.of(wide), views[0].layout)
            view = as_in_source(machine.classes, view)
            node = converted(machine.classes, view.node, after.dtype)
            layout = _numbers_as_floats(machine.classes, view.layout, after.dtype)
            return [View(node, layout)]
    return arithmetic(machine, op, views) or machine.by_equation(op, views)


@handler("compare")
def _compare(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """A comparison of counts that always comes out the same is a constant."""
    truth = _decided(machine, op, views)
    if truth is None:
        return machine.by_equation(op, views)
    literal = "true" if truth else "false"
    node = machine.classes.of(ClassTerm("constant", literal, (), (), (), dtype="i1"))
    local = tuple(repeated(size) for size in op.signature.results[0].shape)
    return [View(node, DigitLayout(local, machine.alone))]


def _is_count(machine: Machine, view: View) -> bool:
    return machine.term(view).kind == AFFINE and not view.layout.tables


def _decided(machine: Machine, op: Op, views: tuple[View, ...]) -> bool | None:
    if any(not _is_count(machine, view) for view in views):
        return None
    rank = len(op.signature.results[0].shape)
    layouts = [view.layout for view in views]
    aligned = machine.aligned(layouts, rank, tuple(range(rank)))
    low, high = _subtracted(*_counts(machine, aligned, views)).range
    text = op.signature.attrs["comparison_direction"]
    direction = text.rstrip(">").split()[-1]
    answers = {
        "LT": (high < 0, low >= 0),
        "LE": (high <= 0, low > 0),
        "GT": (low > 0, high <= 0),
        "GE": (low >= 0, high < 0),
        "EQ": (low == high == 0, low > 0 or high < 0),
        "NE": (low > 0 or high < 0, low == high == 0),
    }
    always, never = answers[direction]
    return True if always else False if never else None


def choose(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """A choice that is a constant is what it chooses."""
    if is_one_truth(machine, views[0]):
        true = machine.term(views[0]).attrs == "true"
        return [views[1] if true else views[2]]
    return machine.by_equation(op, views)


def is_one_truth(machine: Machine, mask: View) -> bool:
    """Whether a mask is the same known truth everywhere, on every device."""
    term = machine.term(mask)
    return term.kind == "constant" and not term.new and not mask.layout.tables


@handler("partition_id")
def _partition_id(machine: Machine, op: Op, views: tuple[View, ...]) -> list[View]:
    """Devices are numbered along the mesh, its first axis being the major one."""
    axes, stride = [], 1
    for size in reversed(machine.sizes):
        axes.append((Digit(0, stride, size),) if size > 1 else ())
        stride *= size
    (type_,) = op.signature.results
    node = count(machine.classes, 0, ((1, stride),), type_.dtype)
    return [View(node, DigitLayout((), tuple(reversed(axes))))]
