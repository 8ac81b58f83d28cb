"""Flops of a whole program on one device, before it is partitioned."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.core import Program, Signature
from partir.ir.trips import trip_count as known_trips
from partir.rules.nest import nest_of
from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.work import work_of


def program_flops(
    program: Program, trip_count: int = 1, multiplicity: Multiplicity | None = None
) -> float:
    """Flops of the whole program on one device, loops multiplied.

    `multiplicity` is what a folded program stands for.
    """
    counts = multiplicity.ops if multiplicity else [1] * len(program.ops)
    return _region_flops(program, program.body.ops, trip_count, counts)


def _region_flops(
    program: Program, ops: Sequence[int], trip_count: int, counts: Sequence[int]
) -> float:
    flops = 0.0
    for index in ops:
        op = program.ops[index]
        if not op.regions:
            flops += _op_flops(op.signature) * counts[index]
            continue
        inner = [_region_flops(program, r.ops, trip_count, counts) for r in op.regions]
        trips = known_trips(program, index)
        loop = len(op.regions) == 2 and trips != 1
        trips = trip_count if trips is None else trips
        flops += sum(inner) * trips if loop else max(inner)
    return flops


def _op_flops(signature: Signature) -> float:
    known: float | None = signature.cache.get("flops")
    if known is None:
        known = signature.cache["flops"] = work_of(nest_of(signature)).flops
    return known
