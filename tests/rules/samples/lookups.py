"""Random dimension numbers, which gather and scatter share under different names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def spelled(shape: Sequence[int]) -> str:
    """A shape in MLIR's spelling."""
    return "x".join(map(str, shape))


@dataclass(frozen=True)
class Lookup:
    """Which dimension of a rank-3 operand does what, and where the indices are.

    `looked_up` is gather's result, scatter's updates.
    """

    roles: tuple[str, ...]
    operand: str
    indices: str
    looked_up: str
    sizes: tuple[int, ...]
    offsets: list[int]
    batch_positions: list[int]
    indexed: list[int]
    vector: int

    def dims(self, role: str) -> list[int]:
        """Operand dimensions with this role."""
        return [dim for dim, own in enumerate(self.roles) if own == role]


def random_lookup(rng: np.random.Generator) -> Lookup:
    """Windows whole and in part, batches, and an index vector anywhere."""
    operand = [int(n) for n in rng.choice([2, 3, 4], size=3)]
    roles = [str(r) for r in rng.choice(["batch", "collapsed", "part", "whole"], 3)]
    indexed = _indexed_dims(rng, roles)
    batch = [dim for dim in range(3) if roles[dim] == "batch"]
    # Positions looked up: an operand's batch dimension each, and one or two others.
    places: list[int | None] = [*batch, *[None] * int(rng.integers(1, 3))]
    rng.shuffle(places)  # type: ignore[arg-type]
    positions = [int(rng.choice([2, 4])) if b is None else operand[b] for b in places]
    vector = int(rng.integers(len(positions) + 1))
    indices = [*positions[:vector], len(indexed), *positions[vector:]]
    batch_positions = [
        place + (place >= vector) for b in batch for place in [places.index(b)]
    ]
    sizes = [_window(rng, role, n) for role, n in zip(roles, operand, strict=True)]
    windows = [n for r, n in zip(roles, sizes, strict=True) if r in ("part", "whole")]
    count = len(positions) + len(windows)
    offsets = sorted(int(d) for d in rng.permutation(count)[: len(windows)])
    return Lookup(
        tuple(roles),
        spelled(operand),
        spelled(indices),
        spelled(_interleaved(positions, windows, offsets)),
        tuple(sizes),
        offsets,
        batch_positions,
        indexed,
        vector,
    )


def _indexed_dims(rng: np.random.Generator, roles: list[str]) -> list[int]:
    """In any order; a batch dimension is not looked up, the first other one is."""
    free = [dim for dim in range(3) if roles[dim] != "batch"]
    if not free:
        roles[2], free = "part", [2]
    chosen = [free[0], *(dim for dim in free[1:] if rng.random() < 0.6)]
    return [int(d) for d in rng.permutation(chosen)]


def _window(rng: np.random.Generator, role: str, size: int) -> int:
    if role == "whole":
        return size
    return int(rng.integers(1, size + 1)) if role == "part" else 1


def _interleaved(
    positions: list[int], windows: list[int], offsets: list[int]
) -> list[int]:
    """Windows at their offsets, positions in the places between."""
    rest, inner = iter(positions), iter(windows)
    count = len(positions) + len(windows)
    return [next(inner) if dim in offsets else next(rest) for dim in range(count)]
