"""Numbers for a program's arguments, edges of their types among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from partir.execute.types import jax_struct
from partir.ir.core import Program
from partir.ir.types import TensorType

HOLDS = ("full", "small", "index", "whole", "plain", "wild")
"""Integers over all their range, few, or such as index; floats that are whole numbers,
that are any, and with infinities, NaN, zeros of both signs and denormals among them."""


def inputs(program: Program, holds: Sequence[str], seed: int) -> list[np.ndarray]:
    """An array for each argument; those of other arguments don't change it."""
    return [
        drawn(program.types[port.value], kind, np.random.default_rng([seed, number]))
        for number, (port, kind) in enumerate(
            zip(program.arguments, holds, strict=True)
        )
    ]


def drawn(type_: TensorType, holds: str, rng: np.random.Generator) -> np.ndarray:
    """One array of a type."""
    struct = jax_struct(type_)
    shape, dtype = tuple(struct.shape), np.dtype(struct.dtype)
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if type_.dtype.startswith(("i", "ui")):
        return _integers(shape, dtype, holds, rng)
    if dtype.kind == "c":
        made = np.empty(shape, dtype)
        made.real = _floats(shape, dtype, holds, rng)
        made.imag = _floats(shape, dtype, holds, rng)
        return made
    return _floats(shape, dtype, holds, rng).astype(dtype)


def _integers(
    shape: tuple[int, ...], dtype: np.dtype, holds: str, rng: np.random.Generator
) -> np.ndarray:
    limits: Any = ml_dtypes.iinfo
    info = limits(dtype)
    low, high = int(info.min), int(info.max)
    few = rng.integers(max(low, -3), min(high, 6) + 1, shape)
    if holds == "small":
        return few.astype(dtype)
    far = _wide(low, high, shape, rng)
    if holds == "index":
        near = rng.integers(0, min(high, 8) + 1, shape)
        return np.where(rng.random(shape) < 0.1, far, near).astype(dtype)
    return np.where(rng.random(shape) < 0.3, few, far).astype(dtype)


def _wide(
    low: int, high: int, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Over all the range, its ends included; as Python's integers."""
    ends = np.array([low, high, low + 1, high - 1], object)
    kind = np.uint64 if high > 2**63 else np.int64
    made = rng.integers(low, high, shape, kind, endpoint=True).astype(object)
    return np.where(rng.random(shape) < 0.1, rng.choice(ends, shape), made)


def _floats(
    shape: tuple[int, ...], dtype: np.dtype, holds: str, rng: np.random.Generator
) -> np.ndarray:
    whole = rng.integers(-3, 5, shape).astype(np.float64)
    if holds == "whole":
        return whole
    plain = np.asarray(rng.normal(size=shape))
    if holds == "plain":
        return plain
    tiny = 1e-310 if dtype.itemsize in (8, 16) else 1e-40
    edges = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, tiny, -tiny])
    usual = whole if rng.random() < 0.5 else plain
    return np.where(rng.random(shape) < 0.15, rng.choice(edges, shape), usual)
