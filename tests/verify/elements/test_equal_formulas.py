"""Formulas of floats that are equal belong to equal functions, of infinities as well.

Random ops are run on formulas, and on numbers: all values of two floats, an integer,
two truths and a narrow float. Whenever two formulas are equal, so must all numbers be.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.verify.elements.alone import new_ops
from partir.verify.elements.cases import Cases
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import ring_of

FLOATS = (0.0, 1.0, -2.0, 0.5, math.inf, -math.inf, math.nan)
GRID = np.array(
    [
        (x, y, i, t, s, n)
        for x in FLOATS
        for y in FLOATS
        for i in (-1, 0, 2)
        for t in (0, 1)
        for s in (0, 1)
        for n in (-1.0, math.nan)
    ]
)
NARROW = "f8E4M3FN"
ARGUMENTS = ("f64", "f64", "i4", "i1", "i1", NARROW)
KNOWN = (0.0, -0.0, 1.0, -1.0, 2.0, -4.0, 0.25, math.inf, -math.inf, math.nan)
WAYS = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "GE": np.greater_equal}
OPS: Mapping[str, tuple[str, tuple[str, ...], Any]] = {
    **{
        name: ("f64", ("f64", "f64"), getattr(np, name))
        for name in ("add", "subtract", "multiply", "maximum", "minimum")
    },
    "negate": ("f64", ("f64",), np.negative),
    "select": ("f64", ("i1", "f64", "f64"), lambda t, x, y: np.where(t != 0, x, y)),
    "clamp": (
        "f64",
        ("f64", "f64", "f64"),
        lambda low, x, high: np.minimum(np.maximum(low, x), high),
    ),
    "and": ("i1", ("i1", "i1"), np.minimum),
    "or": ("i1", ("i1", "i1"), np.maximum),
    "xor": ("i1", ("i1", "i1"), lambda x, y: np.abs(x - y)),
    "select i1": ("i1", ("i1", "i1", "i1"), lambda t, x, y: np.where(t != 0, x, y)),
    "maximum narrow": (NARROW, (NARROW, NARROW), np.maximum),
    "select narrow": (
        NARROW,
        ("i1", NARROW, NARROW),
        lambda t, x, y: np.where(t != 0, x, y),
    ),
    "convert narrow": ("f64", (NARROW,), np.array),
    "convert i4": ("f64", ("i4",), np.array),
    "convert i1": ("f64", ("i1",), np.array),
    **{f"compare {way}": ("i1", ("f64", "f64"), run) for way, run in WAYS.items()},
}
MOST = 40  # values at a time: few, so that many are made again
Value = tuple[str, Any, np.ndarray]  # type, formula, numbers


def start(ops: Elementwise) -> list[Value]:
    """Arguments, and numbers."""
    found: list[Value] = []
    for number, dtype in enumerate(ARGUMENTS):
        key = ("argument", number, 0)
        made = ops.algebra.truth(*key) if dtype == "i1" else None
        formula = made or ring_of(dtype).unknown(ops.algebra.point, *key)
        found.append((dtype, formula, GRID[:, number]))
    for known in KNOWN:
        found.append(("f64", ops.numbers.formula(known), np.full(len(GRID), known)))
    for known in (2.0, -448.0):
        found.append((NARROW, ops.numbers.formula(known), np.full(len(GRID), known)))
    return found


def drawn(rnd: random.Random, ops: Elementwise, values: list[Value]) -> Value:
    """A random op on random values."""
    name = rnd.choice([*OPS])
    made, types, run = OPS[name]
    given = [rnd.choice([v for v in values if v[0] == dtype]) for dtype in types]
    kind, _, way = name.partition(" ")
    attrs = {"comparison_direction": f"#stablehlo<comparison_direction {way}>"}
    signature = Signature.of(
        f"stablehlo.{kind}",
        attrs if kind == "compare" else {},
        tuple(tensor((), dtype) for dtype in types),
        (tensor((), made),),
    )
    step = ops.run(signature)
    assert step is not None
    formula = step(*(value[1] for value in given))
    return made, formula, np.asarray(run(*(value[2] for value in given)), float)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_equal_formulas_are_equal_functions(seed: int) -> None:
    rnd, ops = random.Random(seed), new_ops(turns=seed % 2 == 1)
    values, seen, again = start(ops), {}, 0
    first = len(values)
    for _ in range(1000):
        dtype, formula, numbers = drawn(rnd, ops, values)
        if np.any(np.isfinite(numbers) & (np.abs(numbers) > 1e12)):
            continue
        key = (dtype, ops.algebra.flat(formula, ring_of(dtype)))
        before = seen.setdefault(key, numbers)
        again += before is not numbers
        assert np.array_equal(before, numbers, equal_nan=True)
        if type(formula) is not Cases or formula.size < 80:
            values.append((dtype, formula, numbers))
        if len(values) > MOST:
            values.pop(rnd.randrange(first, len(values)))
    assert again > 100
