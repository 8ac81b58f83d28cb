"""Formulas of integers that are equal belong to equal functions, in types of few bits.

Random ops are run on formulas, and on numbers: all values of four integers of two to
four bits and of a truth. Whenever two formulas are equal, so must all numbers be.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.verify.elements.alone import new_ops
from partir.verify.elements.cases import Cases
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import Integers, Truths, ring_of

ARGUMENTS = ("i2", "ui2", "i4", "i2", "i1")
DTYPES = ("i2", "ui2", "i4", "ui4", "i8", "ui8")
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
WAYS = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "GE": np.greater_equal}
MONOIDS = {"add": "sum", "multiply": "product", "maximum": "max", "minimum": "min"}
MOST = 40  # values at a time: few, so that many are made again
Value = tuple[str, Any, np.ndarray]  # type, formula, numbers


def values_of(dtype: str) -> list[int]:
    ring = ring_of(dtype)
    assert isinstance(ring, Integers)
    return [0, 1] if dtype == "i1" else [*range(ring.least, ring.largest + 1)]


GRID = np.array([*itertools.product(*map(values_of, ARGUMENTS))], np.int64)


def typed(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers as a type has them."""
    least, count = values_of(dtype)[0], len(values_of(dtype))
    return (numbers.astype(np.int64) - least) % count + least


def start(ops: Elementwise) -> list[Value]:
    found: list[Value] = []
    for number, dtype in enumerate(ARGUMENTS):
        key, ring = ("argument", number, 0), ring_of(dtype)
        truth = isinstance(ring, Truths)
        unknown = ops.algebra.truth(*key) if truth else None
        formula = unknown or ring.unknown(ops.algebra.point, *key)
        found.append((dtype, formula, GRID[:, number]))
    for dtype in DTYPES:
        ring = ring_of(dtype)
        assert isinstance(ring, Integers)
        for known in (0, 1, ring.least, ring.largest):
            found.append((dtype, ring.number(known), np.full(len(GRID), known)))
    return found


def run(
    ops: Elementwise, kind: str, made: str, given: list[Value], way: str = ""
) -> Any:
    attrs = {"comparison_direction": f"#stablehlo<comparison_direction {way}>"}
    signature = Signature.of(
        f"stablehlo.{kind}",
        attrs if way else {},
        tuple(tensor((), value[0]) for value in given),
        (tensor((), made),),
    )
    step = ops.run(signature)
    assert step is not None
    return step(*(value[1] for value in given))


def drawn(rnd: random.Random, ops: Elementwise, values: list[Value]) -> Value:
    """A random op, or a reduction, of random values."""

    def some(dtype: str) -> Value:
        return rnd.choice([value for value in values if value[0] == dtype])

    dtype = rnd.choice(DTYPES)
    x, y, other = some(dtype), some(dtype), some(rnd.choice(DTYPES))
    kind = rnd.choice([*BINARY, *WAYS, "convert", "convert", "select", "reduce"])
    if kind in WAYS:
        numbers = WAYS[kind](x[2], y[2]).astype(np.int64)
        return "i1", run(ops, "compare", "i1", [x, y], kind), numbers
    if kind == "convert":
        return dtype, run(ops, kind, dtype, [other]), typed(other[2], dtype)
    if kind == "select":
        which = some("i1")
        made = run(ops, kind, dtype, [which, x, y])
        return dtype, made, np.where(which[2] != 0, x[2], y[2])
    if kind == "reduce":
        kind, more = rnd.choice([*BINARY.keys() - {"subtract"}]), some(dtype)
        name, ring = MONOIDS.get(kind, kind), ring_of(dtype)
        made = ops.monoids.total(name, dtype, ring, [one[1] for one in (x, y, more)])
        numbers = typed(BINARY[kind](x[2], y[2]), dtype)
        return dtype, made, typed(BINARY[kind](numbers, more[2]), dtype)
    made = run(ops, kind, dtype, [x, y])
    return dtype, made, typed(BINARY[kind](x[2], y[2]), dtype)


@pytest.mark.parametrize("seed", range(6))
def test_equal_formulas_are_equal_functions(seed: int) -> None:
    rnd, ops = random.Random(seed), new_ops(turns=seed % 2 == 1)
    values, seen, again = start(ops), {}, 0
    first = len(values)
    for _ in range(800):
        dtype, formula, numbers = drawn(rnd, ops, values)
        key = (dtype, ops.algebra.flat(formula, ring_of(dtype)))
        before = seen.setdefault(key, numbers)
        again += before is not numbers
        assert np.array_equal(before, numbers)
        if type(formula) is not Cases or formula.size < 40:
            values.append((dtype, formula, numbers))
        if len(values) > MOST:
            values.pop(rnd.randrange(first, len(values)))
    assert again > 100
