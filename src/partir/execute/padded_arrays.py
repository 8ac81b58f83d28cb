"""Arrays whose tiles are padded to be equal, where a tactic asked for that.

JAX wants equal tiles. An array of 10 rows over 4 devices lies as 12; over axes of 2 and
2 each half of 5 lies as 6. What is in the padding never counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from partir.mesh import Mesh
from partir.rules.nest import Tiling
from partir.rules.reach import tile_sizes


@dataclass(frozen=True)
class Uneven:
    """The dimensions of an array that don't divide, each with how it is cut."""

    shape: tuple[int, ...]
    dims: tuple[tuple[int, tuple[int, ...]], ...]  # number, sizes of its axes

    @classmethod
    def of(cls, shape: Sequence[int], tiling: Tiling, mesh: Mesh) -> Uneven | None:
        """Of an array in tiles; None if it needs no padding."""
        parts = [tuple(mesh.axes[axis] for axis in axes) for axes in tiling]
        dims = tuple(
            (dim, cut)
            for dim, (size, cut) in enumerate(zip(shape, parts, strict=False))
            if size % math.prod(cut)
        )
        return cls(tuple(shape), dims) if dims else None

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape of the array as it lies on the devices."""
        sizes = list(self.shape)
        for dim, parts in self.dims:
            sizes[dim] = tile_sizes(sizes[dim], parts)[-1] * math.prod(parts)
        return tuple(sizes)

    def pad(self, array: Any) -> Any:
        """An array of the size that users see, as it is to lie on the devices."""
        for dim, parts in self.dims:
            array = _pad(array, dim, parts)
        return array

    def cut(self, array: Any) -> Any:
        """An array as it lies on the devices, in the size that users see."""
        for dim, parts in self.dims:
            array = _cut(array, dim, self.shape[dim], parts)
        return array


def _pad(array: Any, dim: int, parts: tuple[int, ...]) -> Any:
    """Level by level: whole tiles, then each of them."""
    if not parts:
        return array
    ours = np if isinstance(array, np.ndarray) else jnp
    size = array.shape[dim]
    tile = -(-size // parts[0])
    edges = [(0, 0)] * array.ndim
    edges[dim] = (0, tile * parts[0] - size)
    array = ours.pad(array, edges)
    if len(parts) == 1:
        return array
    shape = array.shape
    array = array.reshape(*shape[:dim], parts[0], tile, *shape[dim + 1 :])
    array = _pad(array, dim + 1, parts[1:])
    return array.reshape(*shape[:dim], -1, *shape[dim + 1 :])


def _cut(array: Any, dim: int, size: int, parts: tuple[int, ...]) -> Any:
    if not parts:
        return array
    if len(parts) > 1:
        shape, tile = array.shape, -(-size // parts[0])
        array = array.reshape(*shape[:dim], parts[0], -1, *shape[dim + 1 :])
        array = _cut(array, dim + 1, tile, parts[1:])
        array = array.reshape(*shape[:dim], -1, *shape[dim + 1 :])
    return array[(slice(None),) * dim + (slice(size),)]


def resized(aval: jax.ShapeDtypeStruct, uneven: Uneven | None) -> jax.ShapeDtypeStruct:
    """What an array is on the devices."""
    if uneven is None:
        return aval
    shape = uneven.padded + aval.shape[len(uneven.shape) :]
    return jax.ShapeDtypeStruct(shape, aval.dtype, weak_type=aval.weak_type)
