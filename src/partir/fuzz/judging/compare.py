"""When two arrays are the same, and each device's part of an array."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from partir.fuzz.judging.trust import Level, Trust
from partir.mesh import Mesh
from partir.rules.nest import Tiling

DOUBLE = 1e-9  # relative to the largest number on the way, in double precision


class Wrong(Exception):
    """A disagreement."""


def allowed(trust: Trust, want: np.ndarray, wide: np.ndarray | None) -> float | None:
    """How far numbers of a result may be off; None where nothing is promised.

    `wide` is the same result in double precision. Of narrower floats, partitioning may
    double the error that one device makes.
    """
    if trust.level == Level.LOOSE:
        return None
    if trust.level == Level.EXACT:
        return 0.0
    if trust.unit * 1e6 < DOUBLE:
        return DOUBLE * trust.scale
    if wide is None or wide.shape != want.shape:
        return 64 * trust.unit * trust.scale
    with np.errstate(invalid="ignore"):
        error = np.abs(want - wide)
    alone = float(np.max(error[np.isfinite(error)], initial=0.0))
    return 2 * alone + 4 * trust.unit * trust.scale


def require_equal(
    name: str, got: np.ndarray, want: np.ndarray, limit: float | None
) -> None:
    """Raise `Wrong` if numbers are off by more than the limit."""
    if limit is None:
        return
    if got.shape != want.shape:
        raise Wrong(f"{name} has shape {got.shape} instead of {want.shape}")
    same = np.asarray(
        _close(got, want, limit) if want.dtype.kind in "fc" else got == want
    )
    if not np.all(same):
        at = tuple(int(place[0]) for place in np.nonzero(~np.atleast_1d(same)))
        at = at if want.shape else ()
        raise Wrong(
            f"{name}: {int(np.sum(~same))} of {want.size} numbers differ, at "
            f"{list(at)} {got[at]} instead of {want[at]}"
            + (f", which may be off by {limit:.1e}" if limit else "")
        )


def _close(got: np.ndarray, want: np.ndarray, limit: float) -> np.ndarray:
    """Near, or the same infinity, or both not a number."""
    if np.iscomplexobj(want):
        real = _close(np.real(got), np.real(want), limit)
        return np.asarray(real & _close(np.imag(got), np.imag(want), limit))
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(got - want) <= limit
    neither = np.isnan(got) & np.isnan(want)
    return np.asarray((got == want) | neither | near)


def tiles(array: np.ndarray, tiling: Tiling, mesh: Mesh) -> Iterator[np.ndarray]:
    """Each device's part of an array."""
    for place in itertools.product(*(range(size) for size in mesh.axes.values())):
        at = dict(zip(mesh.names, place, strict=True))
        part = array
        for dim, axes in enumerate(tiling):
            for axis in axes:
                part = np.split(part, mesh[axis], dim)[at[axis]]
        yield part
