"""Constants of specs by which the runs that may be fitted by are met best.

Devices of a maker share what is a matter of software: how well kernels written by hand
do, how much of the memory's bandwidth is reached, what collectives take from kernels
beside them, how late a node may be. Chips have a `matrix_efficiency` of their own. Each
shared constant is tried on a grid in turn, and with each of its values those of chips
are fitted anew.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.published_runs.run import Run

Constants = dict[str, float]

_GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "tpu": {
        "overlap_cost": (0.0, 0.5, 0.75, 0.85, 1.0),
        "opaque_efficiency": (0.3, 0.35, 0.4, 0.5),
        "node_lateness": (0.0, 0.01, 0.015, 0.02),
    },
    "gpu": {
        "overlap_cost": (0.0, 0.3, 0.45, 0.6),
        "opaque_efficiency": (0.25, 0.3, 0.35, 0.5),
        "memory_efficiency": (0.65, 0.75, 0.85, 1.0),
        "node_lateness": (0.0, 0.01, 0.015, 0.02),
    },
}
_SHARES = [number / 100 for number in range(30, 100)]
_NOISE = 0.02  # errors below this are all the same


def maker(run: Run) -> str:
    """Whose software it runs."""
    return "tpu" if run.device.startswith("tpu") else "gpu"


def chip(run: Run) -> str:
    """Devices that differ in their memory alone are one chip."""
    return run.device.removesuffix("_40gb")


def fitted(runs: Sequence[Run], rounds: int = 2) -> dict[str, Constants]:
    """Shared constants by maker, and the efficiency by chip."""
    found: dict[str, Constants] = {}
    for name, grids in _GRIDS.items():
        own = [run for run in runs if maker(run) == name]
        if not own:
            continue
        best = {key: getattr(own[0].spec, key) for key in grids}
        for _ in range(rounds):
            before = dict(best)
            for key, grid in grids.items():
                tried = {v: best_shares(own, best | {key: v})[0] for v in grid}
                best[key] = min(tried, key=tried.__getitem__)
            if best == before:
                break
        found[name] = best
        found[f"matrix_efficiency of {name}"] = best_shares(own, best)[1]
    return found


def best_shares(
    runs: Sequence[Run], shared: Mapping[str, Any]
) -> tuple[float, Constants]:
    """How far off the best efficiencies of chips leave their runs; which they are."""
    chips = defaultdict(list)
    for run in runs:
        chips[chip(run)].append((run, *_parts(run, shared)))
    total, shares = 0.0, {}
    for name, parts in chips.items():
        tried = {share: _distance(parts, share) for share in _SHARES}
        shares[name] = min(tried, key=tried.__getitem__)
        total += tried[shares[name]]
    return total, shares


def _parts(run: Run, shared: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds of products at the peak, and of all else."""
    slow, fast = (
        run.predicted(
            run.partitioned.estimate_on(
                replace(run.spec, **shared, matrix_efficiency=share)
            )
        )
        for share in (0.5, 1.0)
    )
    return slow - fast, 2 * fast - slow


def _distance(parts: Iterable[tuple[Run, float, float]], share: float) -> float:
    ratios = [(p / share + rest) / run.seconds for run, p, rest in parts]
    return sum(math.hypot(math.log(ratio), _NOISE) for ratio in ratios)
