"""What is known of floating-point types, and of the numbers in an array."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from partir.execute.types import jax_struct
from partir.ir.types import TensorType, tensor


def inexact(type_: TensorType) -> bool:
    """Whether its numbers are rounded: floats and complex ones."""
    return "f" in type_.dtype


@cache
def info(dtype: str) -> Any:
    """Limits of a float, or of the parts of a complex number."""
    part = dtype[len("complex<") : -1] if dtype.startswith("complex") else dtype
    finfo: Any = ml_dtypes.finfo
    return finfo(jax_struct(tensor((), part)).dtype)


def unit(dtype: str) -> float:
    """How far apart 1 and the next number are."""
    return float(info(dtype).eps)


def parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """Real and imaginary numbers."""
    yield np.real(array)
    if np.iscomplexobj(array):
        yield np.imag(array)


def largest(array: np.ndarray) -> float:
    """The largest finite number, sign aside."""
    finite = [np.abs(part[np.isfinite(part)]) for part in parts(array)]
    return max(float(np.max(part, initial=0.0)) for part in finite)


def whole(array: np.ndarray) -> bool:
    """Whether all finite numbers are whole ones."""
    finite = [part[np.isfinite(part)] for part in parts(array)]
    return all(bool(np.all(part == np.round(part))) for part in finite)


def denormal(array: np.ndarray, dtype: str) -> bool:
    """Whether some are so small that a machine may take them for zero."""
    least = float(info(dtype).smallest_normal)
    small = [(part != 0) & (np.abs(part) < least) for part in parts(array)]
    return any(bool(np.any(part)) for part in small)
