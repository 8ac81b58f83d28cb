"""From a partition to its SPMD program at once, for those who want nothing between."""

from __future__ import annotations

from dataclasses import replace

from partir.ir.garbage import collection_paused
from partir.partition.complete import complete
from partir.partition.state import State
from partir.spmd.lowering.lower import lower
from partir.spmd.lowering.resting_operands import rest_operands
from partir.spmd.program import FoldedRepeats, SpmdProgram
from partir.spmd.rewrites.table import rewrite


@collection_paused
def lower_state(state: State, repeats: FoldedRepeats | None = None) -> SpmdProgram:
    """Core -> what was left of it -> SPMD program -> its collectives rewritten.

    `repeats` if it is of a folded program.
    """
    settled = rest_operands(complete(state), repeats)
    return rewrite(replace(lower(settled), repeats=repeats))
