"""From a partition to its SPMD program at once, for those who want nothing between."""

from __future__ import annotations

from partir.ir.garbage import collection_paused
from partir.partition.complete import complete
from partir.partition.state import State
from partir.spmd.lower import lower
from partir.spmd.program import SpmdProgram
from partir.spmd.rewrites import rewrite


@collection_paused
def lower_state(state: State) -> SpmdProgram:
    """Core -> what was left of it -> SPMD program -> its collectives rewritten."""
    return rewrite(lower(complete(state)))
