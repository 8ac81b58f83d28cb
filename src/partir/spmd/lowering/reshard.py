"""From one tiling to another: whole tuples of axes at a time.

The common prefix of a dimension's axes stays. What is only added is sliced, which is
free, and first, so that later steps move less. Axes that change their dimension move
by all_to_all; a change of order is a collective_permute; the rest is gathered.
"""

from __future__ import annotations

import math
from functools import lru_cache

from partir.mesh import Mesh
from partir.rules.identities import TILED, cites
from partir.rules.nest import Tiling
from partir.spmd.lowering.reshard_steps import ReshardStep, cheapest


@lru_cache(maxsize=1 << 12)
def plan(
    source: Tiling,
    target: Tiling,
    mesh: Mesh | None = None,
    in_order: frozenset[int] = frozenset(),
) -> tuple[ReshardStep, ...]:
    """Moves that turn `source` into `target`, with the fewest bytes on this mesh.

    Tiles of the dimensions `in_order` are not put in another order on the way.

    >>> [m.kind for m in plan((("B",), ()), ((), ("B",)))]
    ['all_to_all']
    >>> [m.kind for m in plan((("B",), ()), ((), ("M",)))]
    ['all_slice', 'all_gather']
    >>> [m.kind for m in plan((("B", "M"),), (("M", "B"),))]
    ['collective_permute']
    """
    moves: list[ReshardStep] = []
    now = source
    while now != target:
        move = (
            _slice(now, target)
            or _all_to_all(now, target)
            or _permute(now, target)
            or _gather(now, target)
        )
        moves.append(move)
        now = move.after
    if mesh is None or len(moves) < 2 or {m.kind for m in moves} == {"all_slice"}:
        return tuple(moves)
    return cheapest(source, target, mesh, tuple(moves), in_order)


@lru_cache(maxsize=1 << 12)
def joinable(
    sizes: tuple[int, ...], source: Tiling, target: Tiling, mesh: Mesh
) -> Tiling:
    """The target, but for dimensions with short tiles that must lose and gain axes.

    Tiles of such a dimension lie otherwise in every order of its axes: what it loses
    is gathered before anything is gained.

    >>> joinable((7,), (("B", "M"),), (("M", "B"),), Mesh({"B": 2, "M": 3}))
    ((),)
    """
    made = []
    for size, have, want in zip(sizes, source, target, strict=True):
        common = _common(have, want)
        parts = math.prod(mesh.axes[axis] for axis in {*have, *want})
        loses = len(have) > common and len(want) > common
        made.append(want[:common] if loses and size % parts else want)
    return tuple(made)


@lru_cache(maxsize=1 << 12)
def short_dims(
    sizes: tuple[int, ...], source: Tiling, target: Tiling, mesh: Mesh
) -> frozenset[int]:
    """Dimensions with short tiles: another order of axes would be other tiles.

    >>> short_dims((7, 8), (("B",), ()), ((), ("B",)), Mesh({"B": 2}))
    frozenset({0})
    """
    return frozenset(
        dim
        for tiling in (source, target)
        for dim, axes in enumerate(tiling)
        if sizes[dim] % math.prod(mesh.axes[axis] for axis in axes)
    )


def _with(tiling: Tiling, dim: int, axes: tuple[str, ...]) -> Tiling:
    return (*tiling[:dim], axes, *tiling[dim + 1 :])


@cites(TILED)
def _slice(now: Tiling, target: Tiling) -> ReshardStep | None:
    """Axes that a dimension only gains and that tile nothing yet."""
    used = {axis for axes in now for axis in axes}
    for dim, (have, want) in enumerate(zip(now, target, strict=True)):
        added = _gained(have, want)
        fresh = added[: next((i for i, a in enumerate(added) if a in used), len(added))]
        if fresh:
            return ReshardStep(
                "all_slice", fresh, dim, -1, _with(now, dim, have + fresh)
            )
    return None


def _gained(have: tuple[str, ...], want: tuple[str, ...]) -> tuple[str, ...]:
    """Axes to append; none of them if the dimension must also lose or reorder some.

    Where it keeps the same axes in another order, what is new is still sliced first.
    """
    if want[: len(have)] == have:
        return want[len(have) :]
    if set(have) <= set(want):
        return tuple(axis for axis in want if axis not in have)
    return ()


@cites(TILED)
def _all_to_all(now: Tiling, target: Tiling) -> ReshardStep | None:
    """A minor run of one dimension's axes that another dimension wants next."""
    for dim, have in enumerate(now):
        surplus = have[_common(have, target[dim]) :]
        for to_dim, want in enumerate(target):
            there = now[to_dim]
            if to_dim == dim or want[: len(there)] != there:
                continue
            wanted = want[len(there) :]
            for start in range(len(surplus)):
                run = surplus[start:]
                if wanted[: len(run)] == run:
                    kept = have[: len(have) - len(run)]
                    after = _with(_with(now, dim, kept), to_dim, there + run)
                    return ReshardStep("all_to_all", run, dim, to_dim, after)
    return None


@cites(TILED)
def _permute(now: Tiling, target: Tiling) -> ReshardStep | None:
    """The same axes in another order, the ones to be gathered afterwards last."""
    for dim, (have, want) in enumerate(zip(now, target, strict=True)):
        kept = tuple(axis for axis in want if axis in have)
        lost = tuple(axis for axis in have if axis not in want)
        order = kept + lost
        if order != have and kept == want[: len(kept)] and kept:
            return ReshardStep(
                "collective_permute", have, dim, -1, _with(now, dim, order)
            )
    return None


@cites(TILED)
def _gather(now: Tiling, target: Tiling) -> ReshardStep:
    """The minor run beyond the common prefix."""
    for dim, (have, want) in enumerate(zip(now, target, strict=True)):
        common = _common(have, want)
        if len(have) > common:
            after = _with(now, dim, have[:common])
            return ReshardStep("all_gather", have[common:], dim, -1, after)
    raise AssertionError((now, target))


def _common(have: tuple[str, ...], want: tuple[str, ...]) -> int:
    count = 0
    for a, b in zip(have, want, strict=False):
        if a != b:
            break
        count += 1
    return count
