"""Integers and truths that depend on no argument, written out as numbers.

Where a device's window starts, and which of its rows exist, is arithmetic on constants,
`iota` and `partition_id`. What is not affine (`counting.py`) is computed as the program
does it, number by number, and wraps round as integers do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from partir.ir.core import Op
from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import DROPPED, GARBAGE, OPEN, Rows, filled
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.layout import View, repeating
from partir.verify.layouts.spread import MOST, narrowed, rebuilt, rows_of

KNOWN = "known"  # the class of all numbers of a type: its rows are the numbers
_ZERO = 1 << 39  # the row of the number zero
TYPES = {
    "i1": np.bool_,
    **{f"i{n}": np.dtype(f"int{n}").type for n in (8, 16, 32, 64)},
    **{f"ui{n}": np.dtype(f"uint{n}").type for n in (8, 16, 32, 64)},
}
_COMPARED: dict[str, Any] = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}


class ShownNumbers(NamedTuple):
    """Numbers at every place, along axes and dimensions; and where there are any."""

    values: np.ndarray
    known: np.ndarray


def numbers(classes: Classes, view: View) -> np.ndarray | None:
    """A view's numbers at every place, along axes and dimensions; None if unknown."""
    found = shown_numbers(classes, view)
    return None if found is None or not found.known.all() else found.values


def shown_numbers(classes: Classes, view: View) -> ShownNumbers | None:
    """A view's numbers; `GARBAGE` has none, and is 1 here, which divides."""
    dtype = TYPES.get(classes.terms[view.node].dtype)
    counts = classes.terms[view.node].kind == KNOWN
    values = None if counts else evaluated(classes, view.node)
    if dtype is None or (values is None and not counts):
        return None
    rank = len(view.layout.axes) + len(view.layout.local)
    rows = [
        rows_of(view.layout, d) for d in range(1 if values is None else values.ndim)
    ]
    most = [2 * _ZERO] if values is None else values.shape
    if any((r >= n).any() for r, n in zip(rows, most, strict=True)):
        return None
    spread = np.broadcast_arrays(*rows, np.zeros((1,) * rank, np.int64))[:-1]
    if values is None:
        made: np.ndarray = (spread[0] - _ZERO).astype(dtype)
    else:
        index = tuple(np.maximum(r, 0) for r in spread)
        made = np.array(values[index] if index else values.reshape((1,) * rank))
    return _filled_in(classes, made, spread)


def _filled_in(
    classes: Classes, made: np.ndarray, rows: Sequence[Rows]
) -> ShownNumbers | None:
    """With numbers in place of rows where there are some."""
    known = np.ones(made.shape, np.bool_)
    for held in rows:
        for code in np.unique(held[held < GARBAGE]):
            number = evaluated(classes, filled(int(code)))
            if number is None or number.size != 1:
                return None
            made[held == code] = number.reshape(())
        known &= held != GARBAGE
    made[~known] = 1
    return ShownNumbers(made, known)


def computed(
    classes: Classes, sizes: tuple[int, ...], op: Op, views: Sequence[View]
) -> list[View] | None:
    """An op on known numbers, some of which no digits count."""
    run = RUN.get(op.signature.name)
    if run is None or len(op.results) != 1:
        return None
    (type_,) = op.signature.results
    dtype = TYPES.get(type_.dtype)
    operands = [shown_numbers(classes, view) for view in views]
    if dtype is None or any(found is None for found in operands):
        return None
    rank, spread = len(sizes) + len(type_.shape), []
    known: np.ndarray = np.ones((1,) * rank, np.bool_)
    for found in operands:
        assert found is not None
        values, there = (x.reshape(x.shape + (1,) * (rank - x.ndim)) for x in found)
        known = known & there
        spread.append(values)
    with np.errstate(all="ignore"):
        made = run(op.signature.attrs, *spread)
    if made is None or not within(made, _ZERO - 1):
        return None
    rows = made.astype(dtype).astype(np.int64) + _ZERO
    rows = narrowed(np.where(known, rows, GARBAGE))
    node = classes.of(ClassTerm(KNOWN, (), (), (), (), new=(OPEN,), dtype=type_.dtype))
    plain = repeating(type_.shape, sizes)
    shape = (*sizes, *type_.shape)
    return [View(node, rebuilt(plain, {0: rows}, shape, {0: OPEN}))]


def number_class(classes: Classes, number: int, dtype: str) -> int:
    """The class of one integer or truth."""
    if dtype == "i1":
        literal = "true" if number else "false"
        return classes.of(ClassTerm("constant", literal, (), (), (), dtype=dtype))
    own = number
    if dtype in TYPES:  # of 64 bits, those that it has
        own = int(np.array(number % (1 << 64), np.uint64).astype(TYPES[dtype]))
    return classes.of(ClassTerm("affine", (own, ()), (), (), (), dtype=dtype))


def literal_class(classes: Classes, literal: str, dtype: str) -> int:
    """One number, as MLIR spells it."""
    if dtype[0] in "iu" and dtype != "i1":
        return number_class(classes, int(literal), dtype)
    return classes.of(ClassTerm("constant", literal, (), (), (), dtype=dtype))


def number_of_row(row: int) -> int:
    """The number that a row of the class of all numbers is."""
    return row - _ZERO


def reduced_rows(monoid: str, dtype: str, rows: Rows) -> Rows | None:
    """Rows that are numbers, reduced along the last dimension; None if some are not."""
    counted = rows != DROPPED
    run = _REDUCED.get(monoid)
    if run is None or not counted.any(-1).all() or dtype not in TYPES:
        return None
    if (counted & ((rows <= 0) | (rows >= 2 * _ZERO))).any():
        return None
    plain: np.ndarray = (np.where(counted, rows, _ZERO) - _ZERO).astype(TYPES[dtype])
    made: np.ndarray = np.array(
        [
            run.reduce(members[held])
            for members, held in zip(
                plain.reshape(-1, rows.shape[-1]),
                counted.reshape(-1, rows.shape[-1]),
                strict=True,
            )
        ]
    ).astype(TYPES[dtype])
    if not within(made, _ZERO - 1):
        return None
    return made.astype(np.int64).reshape(rows.shape[:-1]) + _ZERO


def within(found: np.ndarray, limit: int) -> bool:
    """Whether no number is further from zero; the least of a type has no `abs`."""
    wide = found.astype(np.int64)
    return bool(((wide >= -limit) & (wide <= limit)).all())


def is_known(classes: Classes, node: int) -> bool:
    """Whether a class is a known number at every place."""
    return evaluated(classes, node) is not None


def evaluated(classes: Classes, node: int) -> np.ndarray | None:
    """A class's numbers along its dimensions; None if they are not known."""
    known = classes.numbers
    if node not in known:
        known[node] = None  # until it is known
        known[node] = _evaluate(classes, classes.terms[node])
    return known[node]


def _evaluate(classes: Classes, term: ClassTerm) -> np.ndarray | None:
    dtype = TYPES.get(term.dtype)
    small = int(np.prod(term.dims, dtype=np.int64)) <= MOST
    if dtype is None or not small or any(size < 1 for size in term.sizes):
        return None
    if term.kind == "affine":
        return _counted(term).astype(dtype)
    if term.kind == "constant":
        return _literal(term, dtype)
    if term.kind == "at":
        return _pinned(classes, term)
    if term.kind == "reduce":
        return _summed(classes, term, dtype)
    return _computed(classes, term, dtype)


def _counted(term: ClassTerm) -> np.ndarray:
    first, steps = term.attrs
    first -= (1 << 64) * (first >= 1 << 63)  # as 64 bits have it
    made = np.full((1,) * len(steps), first, np.int64)
    for dim, (step, size) in enumerate(zip(steps, term.sizes, strict=True)):
        shape = [1] * len(steps)
        shape[dim] = size
        made = made + step * np.arange(size, dtype=np.int64).reshape(shape)
    return made


def _computed(classes: Classes, term: ClassTerm, dtype: Any) -> np.ndarray | None:
    """An op on known numbers."""
    run = RUN.get(term.kind.removeprefix("stablehlo."))
    if run is None or term.new or len(term.free) != len(term.sizes):
        return None
    operands = []
    for ref in term.refs:
        values = evaluated(classes, ref.node)
        if values is None:
            return None
        operands.append(_over(values, ref.dims, term.sizes))
    with np.errstate(all="ignore"):
        made = run(term.attrs, *operands)
    if made is None:
        return None
    return np.broadcast_to(made, term.sizes).astype(dtype)


def _summed(classes: Classes, term: ClassTerm, dtype: Any) -> np.ndarray | None:
    """A reduction of known numbers over the variables that are bound."""
    (ref,), run = term.refs, _REDUCED.get(str(term.attrs))
    values = evaluated(classes, ref.node)
    if values is None or run is None or np.prod(term.sizes, dtype=np.int64) > MOST:
        return None
    spread = np.broadcast_to(_over(values, ref.dims, term.sizes), term.sizes)
    bound = tuple(n for n in range(len(term.sizes)) if n not in term.free)
    with np.errstate(all="ignore"):
        return np.asarray(run.reduce(spread, axis=bound, dtype=dtype))


def _pinned(classes: Classes, term: ClassTerm) -> np.ndarray | None:
    """A class at some of its rows."""
    values = evaluated(classes, term.refs[0].node)
    pins = dict(term.attrs)
    if values is None or any(not 0 <= r < values.shape[d] for d, r in pins.items()):
        return None
    index = tuple(pins.get(dim, slice(None)) for dim in range(values.ndim))
    return np.asarray(values[index])


def _over(
    values: np.ndarray, dims: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]
) -> np.ndarray:
    """A class's numbers over the variables of a term that reads it."""
    index = []
    for dim in dims:
        place = np.zeros((1,) * len(sizes), np.int64)
        for variable in dim:
            shape = [1] * len(sizes)
            shape[variable] = sizes[variable]
            place = place * sizes[variable] + np.arange(sizes[variable]).reshape(shape)
        index.append(place)
    if not index:
        return values.reshape((1,) * len(sizes))
    return np.asarray(values[tuple(np.broadcast_arrays(*index))])


_WORD = re.compile(r"-?\d+|true|false")


def _literal(term: ClassTerm, dtype: Any) -> np.ndarray | None:
    text = str(term.attrs)
    if text.startswith('"'):
        return _from_bytes(text, term, dtype)
    words = _WORD.findall(text)
    found = [{"true": 1, "false": 0}.get(word) for word in words]
    plain = [
        int(word) if n is None else n for word, n in zip(words, found, strict=True)
    ]
    count = int(np.prod(term.dims, dtype=np.int64))
    if len(plain) not in (1, count):
        return None
    made = np.array(plain, dtype=object).astype(dtype)
    return np.broadcast_to(made, (count,)).reshape(term.dims)


def _from_bytes(text: str, term: ClassTerm, dtype: Any) -> np.ndarray | None:
    data = bytes.fromhex(text.strip('"').removeprefix("0x"))
    count = int(np.prod(term.dims, dtype=np.int64))
    if dtype is np.bool_ or len(data) != count * np.dtype(dtype).itemsize:
        return None
    return np.frombuffer(data, dtype).reshape(term.dims)


def _compared(attrs: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    found = re.search(r"comparison_direction (LT|LE|GT|GE|EQ|NE)", str(attrs))
    return None if found is None else np.asarray(_COMPARED[found[1]](x, y))


def _divided(attrs: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """Towards zero, as integers are divided."""
    if (y == 0).any() or x.dtype.kind not in "iu":
        return None
    down = x // y
    rounded = (x - down * y != 0) & ((x < 0) != (y < 0))
    return np.asarray(np.where(rounded, down + 1, down).astype(x.dtype))


def _remainder(attrs: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    quotient = _divided(attrs, x, y)
    return None if quotient is None else np.asarray(x - y * quotient)


def _clamped(
    attrs: Any, low: np.ndarray, x: np.ndarray, high: np.ndarray
) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(low, x), high))


_REDUCED: dict[str, np.ufunc] = {
    "sum": np.add,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}

RUN: dict[str, Callable[..., Any]] = {
    "add": lambda attrs, x, y: x + y,
    "subtract": lambda attrs, x, y: x - y,
    "multiply": lambda attrs, x, y: x * y,
    "negate": lambda attrs, x: -x,
    "divide": _divided,
    "remainder": _remainder,
    "maximum": lambda attrs, x, y: np.maximum(x, y),
    "minimum": lambda attrs, x, y: np.minimum(x, y),
    "clamp": _clamped,
    "compare": _compared,
    "and": lambda attrs, x, y: x & y,
    "or": lambda attrs, x, y: x | y,
    "xor": lambda attrs, x, y: x ^ y,
    "not": lambda attrs, x: ~x,
    "select": lambda attrs, which, x, y: np.where(which, x, y),
    "convert": lambda attrs, x: x,
}
