"""What a device's compiler does about memory, by itself or as it is told."""

from __future__ import annotations

from dataclasses import dataclass

from partir.simulate.memory.near_memory import NO_NEAR_MEMORY, NearMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHabits:
    """Where values need no memory of their own, and where copies do.

    Args:
        near: the memory beside the matrix units, which does not count.
        into_stacks: whether what is computed only to be put into a stack that a loop
            carries is made there.
        reduces_in_place: whether an all-reduce writes over what it reads.
        over_fused: whether arithmetic writes only over what other arithmetic made alone
            and in the same shape; else over all that nobody needs any more.
        product_bytes: what a product needs for itself while it runs.
        orders_reads: whether donated arguments are read for the last time before their
            successors are written; else they are copied.
        collectives_apart: whether what a collective makes takes no place of a donated
            argument that is read.
        keeps_arguments: whether such an argument stays in its place until what was
            gathered is there, and is copied over it; else it is copied itself.
        copies_at_end: whether all of that is copied when the last is there.
        gathers_ahead: by how many products gathers come before they are needed.
        updates_at_once: whether donated arguments are updated as soon as they can be.
    """

    near: NearMemory = NO_NEAR_MEMORY
    into_stacks: bool = False
    reduces_in_place: bool = False
    over_fused: bool = False
    product_bytes: int = 0
    orders_reads: bool = False
    collectives_apart: bool = False
    keeps_arguments: bool = False
    copies_at_end: bool = False
    gathers_ahead: int = 0
    updates_at_once: bool = False


NO_HABITS = MemoryHabits()
