"""Ops of which nothing is known but along which dimensions they work row by row."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.verify.elements.cases import GARBAGE, Scalar
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.moving import numbered
from partir.verify.elements.rings import Truths, ring_of
from partir.verify.equations.registry import equation_of
from partir.verify.layouts.align import Equation, Label
from partir.verify.layouts.layout import Unreadable

Elements = list[Scalar]
Sizes = Mapping[Label, int]


def called(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> list[Elements]:
    """A function of rows: equal operands give equal results, in every row."""
    equation = equation_of(signature)
    if equation is None or signature.lambdas or equation.groups:
        raise Unreadable(f"{signature.name} is not written out element by element")
    free = _free(equation)
    sizes = _sizes(equation, signature, free)
    sides = [
        _Side.of(type_, labels, free, sizes)
        for type_, labels in zip(
            (*signature.operands, *signature.results),
            (*equation.operands, *equation.results),
            strict=True,
        )
    ]
    count = len(given)
    dtypes = tuple((side.dtype, side.inner) for side in sides)
    key = ("called", equation.kind, equation.attrs, dtypes)
    flat = [
        [ops.algebra.flat(x, ring_of(side.dtype)) for x in held]
        for side, held in zip(sides, given, strict=False)
    ]
    made: list[Elements] = [[None] * math.prod(t.shape) for t in signature.results]
    for row in np.ndindex(*sizes.values()):
        rows = tuple(
            tuple(held[place] for place in side.places(row))
            for side, held in zip(sides, flat, strict=False)
        )
        for which, side in enumerate(sides[count:]):
            found = _results(ops, (*key, rows, which), side, rows)
            for place, one in zip(side.places(row), found, strict=False):
                made[which][place] = one
    return made


def _results(
    ops: Elementwise,
    key: tuple[Hashable, ...],
    side: _Side,
    rows: Sequence[Sequence[Scalar]],
) -> Iterator[Scalar]:
    """All elements that one row of operands makes of one result."""
    ring, algebra = ring_of(side.dtype), ops.algebra
    bad = any(one is GARBAGE for row in rows for one in row)
    for number in range(math.prod(side.inner)):
        if bad:
            yield GARBAGE
        elif isinstance(ring, Truths):
            yield algebra.truth(*key, number)
        else:
            every = [one for row in rows for one in row]
            yield algebra.made_of(every, ring, *key, number)


class _Side(NamedTuple):
    """An operand or result: where the elements of each row are."""

    dtype: str
    inner: tuple[int, ...]  # sizes of what a row has
    at: np.ndarray  # by row, then by what it has
    rows: tuple[bool, ...]  # whether rows differ along each free label

    @staticmethod
    def of(
        type_: TensorType, labels: Sequence[Label], free: Sequence[Label], sizes: Sizes
    ) -> _Side:
        outer = [labels.index(label) for label in free if label in labels]
        own = [dim for dim, label in enumerate(labels) if label not in free]
        at = numbered([type_.shape])[0].transpose([*outer, *own])
        inner = tuple(type_.shape[dim] for dim in own)
        rows = tuple(label in labels for label in free)
        shape = [sizes[label] for label in free if label in labels]
        return _Side(type_.dtype, inner, at.reshape(*shape, -1), rows)

    def places(self, row: Sequence[int]) -> list[int]:
        """Of the elements of one row."""
        index = tuple(n for n, own in zip(row, self.rows, strict=True) if own)
        found: list[int] = self.at[index].tolist()
        return found


def _free(equation: Equation) -> list[Label]:
    """Labels along which rows are independent, in operands and results."""
    made = {label for labels in equation.results for label in labels}
    found: dict[Label, None] = {}
    for labels in equation.operands:
        if len({*labels}) != len(labels):
            raise Unreadable("a function of a diagonal")
        for label in labels:
            if label in made and label not in equation.special:
                found[label] = None
            elif label not in equation.special:
                raise Unreadable("a sum of functions")
    return [*found]


def _sizes(
    equation: Equation, signature: Signature, free: Sequence[Label]
) -> dict[Label, int]:
    found: dict[Label, int] = {}
    for type_, labels in zip(
        (*signature.operands, *signature.results),
        (*equation.operands, *equation.results),
        strict=True,
    ):
        for size, label in zip(type_.shape, labels, strict=True):
            if label in free and found.setdefault(label, size) != size:
                raise Unreadable("rows of several sizes")
    if any(label not in labels for labels in equation.results for label in free):
        raise Unreadable("a result that rows have in common")
    return {label: found[label] for label in free}
