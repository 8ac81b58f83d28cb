"""Functions of known numbers: about what they are, or that they are infinite."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

ROOM = 2.0  # for what libraries make of them
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {  # without the dialect
    "abs": np.abs,
    "add": np.add,
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cosine": np.cos,
    "divide": np.divide,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "power": np.power,
    "remainder": np.fmod,
    "round_nearest_afz": lambda x: np.copysign(
        np.floor(np.abs(x)) + (np.abs(x) % 1 >= 0.5), x
    ),
    "round_nearest_even": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign,
    "sine": np.sin,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tanh": np.tanh,
    "conj": np.conj,
    "convert": np.positive,
    "cosh": np.cosh,
    "erf": lambda x: np.float64(math.erf(x)),
    "erfc": lambda x: np.float64(math.erfc(x)),
    "sinh": np.sinh,
    "square": np.square,
    "tan": np.tan,
}


def computed(kind: str, values: Sequence[Any]) -> Any:
    """What comes out; None if that is infinite, no number, or nobody says."""
    run = _FUNCTIONS.get(kind.partition(".")[2])
    if run is None:
        return None
    whole = np.complex128 if any(isinstance(v, complex) for v in values) else np.float64
    try:
        with np.errstate(all="ignore"):
            found = run(*map(whole, values))
    except (ArithmeticError, TypeError, ValueError):
        return None
    return found if np.isfinite(found) else None
