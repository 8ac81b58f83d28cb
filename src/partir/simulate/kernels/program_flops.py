"""Flops of a whole program on one device, before it is partitioned."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.core import Program
from partir.ir.trips import trip_count as known_trips
from partir.rules.nest import nest_of
from partir.simulate.kernels.work import work_of


def program_flops(program: Program, trip_count: int = 1) -> float:
    """Flops of the whole program on one device, loops multiplied."""
    cached: dict[int, float] = program.__dict__.setdefault("_flops", {})
    if trip_count not in cached:
        cached[trip_count] = _region_flops(program, program.body.ops, trip_count)
    return cached[trip_count]


def _region_flops(program: Program, ops: Sequence[int], trip_count: int) -> float:
    flops = 0.0
    for index in ops:
        op = program.ops[index]
        if not op.regions:
            found = op.signature.cache.get("flops")
            if found is None:
                found = work_of(nest_of(op.signature)).flops
                op.signature.cache["flops"] = found
            flops += found
            continue
        inner = [_region_flops(program, r.ops, trip_count) for r in op.regions]
        trips = known_trips(program, index)
        loop = len(op.regions) == 2 and trips != 1
        trips = trip_count if trips is None else trips
        flops += sum(inner) * trips if loop else max(inner)
    return flops
