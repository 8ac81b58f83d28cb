"""Steps from one tiling to another, what they cost, and the cheapest way of all."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, permutations

from partir.mesh import Mesh
from partir.rules.identities import TILED, cites
from partir.rules.nest import Tiling


@dataclass(frozen=True, slots=True)
class ReshardStep:
    """One step: its kind, the axes, where, and the tiling after it."""

    kind: str
    axes: tuple[str, ...]
    dim: int
    to_dim: int
    after: Tiling


def cheapest(
    source: Tiling,
    target: Tiling,
    mesh: Mesh,
    known: tuple[ReshardStep, ...],
    in_order: frozenset[int] = frozenset(),
) -> tuple[ReshardStep, ...]:
    """A way that moves fewer bytes than `known`, or that one. Dijkstra over tilings."""
    limit = sum(cost(s, m, mesh) for s, m in _along(source, known))
    axes = {a for tiling in (source, target) for dim in tiling for a in dim}
    dims = [d for d in range(len(source)) if source[d] or target[d]]
    tie = count()
    queue: list[tuple[float, int, int, Tiling, tuple[ReshardStep, ...]]] = [
        (0.0, 0, next(tie), source, ())
    ]
    done: set[Tiling] = set()
    while queue:
        spent, _, _, now, way = heapq.heappop(queue)
        if now == target:
            return way if spent < limit * (1 - 1e-9) else known
        if now in done or spent >= limit:
            continue
        done.add(now)
        for step in _next_steps(now, dims, axes, in_order):
            if step.after not in done and _divides(step.after, source, target, mesh):
                total = spent + cost(now, step, mesh)
                longer = (*way, step)
                item = (total, len(longer), next(tie), step.after, longer)
                heapq.heappush(queue, item)
    return known


def _along(
    source: Tiling, steps: tuple[ReshardStep, ...]
) -> Iterator[tuple[Tiling, ReshardStep]]:
    now = source
    for step in steps:
        yield now, step
        now = step.after


def _divides(now: Tiling, source: Tiling, target: Tiling, mesh: Mesh) -> bool:
    """Whether sizes that divide at both ends divide here, whatever they are."""

    def parts(tiling: Tiling, dim: int) -> int:
        return math.prod(mesh.axes[axis] for axis in tiling[dim])

    return all(
        parts(source, dim) % parts(now, dim) == 0
        or parts(target, dim) % parts(now, dim) == 0
        for dim in range(len(now))
    )


def cost(now: Tiling, step: ReshardStep, mesh: Mesh) -> float:
    """Bytes that a device sends, as a share of the whole value."""
    if step.kind == "all_slice":
        return 0.0
    local = 1 / math.prod(mesh.axes[axis] for dim in now for axis in dim)
    if step.kind == "collective_permute":
        return local
    size = math.prod(mesh.axes[axis] for axis in step.axes)
    return local * (size - 1) * (1 if step.kind == "all_gather" else 1 / size)


def _with(tiling: Tiling, dim: int, axes: tuple[str, ...]) -> Tiling:
    return (*tiling[:dim], axes, *tiling[dim + 1 :])


@cites(TILED)
def _next_steps(
    now: Tiling, dims: list[int], axes: set[str], in_order: frozenset[int]
) -> Iterator[ReshardStep]:
    """Every single step over these dimensions and axes."""
    used = {axis for dim in now for axis in dim}
    for dim in dims:
        have = now[dim]
        for axis in sorted(axes - used):
            yield ReshardStep(
                "all_slice", (axis,), dim, -1, _with(now, dim, (*have, axis))
            )
        for start in range(len(have)):
            kept, run = have[:start], have[start:]
            fewer = _with(now, dim, kept)
            yield ReshardStep("all_gather", run, dim, -1, fewer)
            for to in dims:
                if to != dim:
                    after = _with(fewer, to, now[to] + run)
                    yield ReshardStep("all_to_all", run, dim, to, after)
        for order in permutations(have) if dim not in in_order else ():
            if order != have:
                yield ReshardStep(
                    "collective_permute", have, dim, -1, _with(now, dim, order)
                )
