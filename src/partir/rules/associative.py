"""Whether a reducer is associative: tried on triples of numbers, nan among them.

StableHLO wants reducers to be. A search for the largest that forgets about nan is not:
what stands behind a nan wins over what stands before it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from partir.ir.core import Lambda, Op, Signature

_MOST = 50_000  # triples
_DIRECTION = re.compile(r"comparison_direction (\w+)")
_CONSTANT = re.compile(r"dense<([-+.\deE]+)> : tensor<b?f\d+>")
_NUMPY = {
    "add": np.add,
    "and": np.bitwise_and,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": np.bitwise_not,
    "or": np.bitwise_or,
    "subtract": np.subtract,
    "xor": np.bitwise_xor,
}
_COMPARED = {
    "EQ": np.equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
    "NE": np.not_equal,
}


@lru_cache(maxsize=1 << 12)
def has_counterexample(body: Lambda) -> bool:
    """Whether three numbers show that it is not; False if it has ops unknown here."""
    count = len(body.results)
    samples = [_sample(body.types[v].dtype) for v in body.arguments[:count]]
    elements = np.array(list(itertools.product(*samples)), dtype=object)
    triples = _triples(len(elements))
    a, b, c = ([_column(elements[t][:, k]) for k in range(count)] for t in triples)
    with np.errstate(all="ignore"):
        left, right = _made(body, a, b), _made(body, b, c)
        if left is None or right is None:
            return False
        one, other = _made(body, left, c), _made(body, a, right)
    assert one is not None
    assert other is not None
    return not all(map(_same, one, other))


def _sample(dtype: str) -> tuple[Any, ...]:
    if dtype == "i1":
        return False, True
    return (float("nan"), -1.0, 0.0, 2.0) if "f" in dtype else (0, 1, 3)


def _column(numbers: np.ndarray) -> np.ndarray:
    return np.array(numbers.tolist())


def _triples(count: int) -> Sequence[np.ndarray]:
    """Numbers of all triples, or of some if they are many."""
    if count**3 <= _MOST:
        grid = np.indices((count,) * 3).reshape(3, -1)
    else:
        grid = np.random.default_rng(0).integers(0, count, (3, _MOST))
    return tuple(grid)


def _made(
    body: Lambda, one: Sequence[np.ndarray], other: Sequence[np.ndarray]
) -> list[np.ndarray] | None:
    known = dict(zip(body.arguments, (*one, *other), strict=True))
    for op in body.ops:
        made = _computed(op, [known[v] for v in op.operands])
        if made is None:
            return None
        known[op.results[0]] = made
    return [known[v] for v in body.results]


def _computed(op: Op, operands: list[np.ndarray]) -> np.ndarray | None:
    name = op.signature.name
    if name == "constant":
        number = _CONSTANT.match(op.signature.attrs["value"])
        return None if number is None else np.array(float(number.group(1)))
    if name == "select":
        return np.where(operands[0], operands[1], operands[2])
    if name == "compare":
        direction = direction_of(op.signature)
        if direction is None:
            return None
        made: np.ndarray = _COMPARED[direction](*operands)
        return made
    function: Any = _NUMPY.get(name)
    return None if function is None else function(*operands)


def direction_of(compare: Signature) -> str | None:
    """``GT`` and the like; None if nan and zeros with a sign have an order too."""
    if "TOTALORDER" in compare.attrs.get("compare_type", ""):
        return None
    found = _DIRECTION.search(compare.attrs["comparison_direction"])
    assert found is not None
    return found.group(1)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    nan = one.dtype.kind == "f"
    return bool(np.allclose(one, other, rtol=1e-9, atol=0, equal_nan=nan))
