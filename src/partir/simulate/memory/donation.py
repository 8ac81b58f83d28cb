"""Donated arguments: which results take their buffers, which must be copied first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.kernel import Kernels
from partir.simulate.memory.habits import MemoryHabits
from partir.spmd.program import Collective, SpmdProgram


@dataclass(frozen=True, slots=True)
class Donation:
    """Donated arguments with the values that take their place.

    `own` are numbers of the results that need their own buffers, `copied` the
    arguments that are still read when their successors are written.
    """

    successors: dict[int, int]
    own: tuple[int, ...]
    copied: tuple[int, ...]


def donation_of(
    program: SpmdProgram,
    block: Kernels,
    donated: Sequence[bool],
    multiplicity: Multiplicity | None,
    habits: MemoryHabits,
) -> Donation:
    """Which results take the buffers of donated arguments."""
    body, types = program.body, program.types
    ins = [
        (types[v], t) for v, t in zip(body.arguments, program.in_tilings, strict=True)
    ]
    outs = [
        (types[v], t) for v, t in zip(body.results, program.out_tilings, strict=True)
    ]
    succeeded = multiplicity.succeeded if multiplicity else paired(ins, outs, donated)
    pairs: dict[int, int] = {}
    own: list[int] = []
    for number, (place, base) in enumerate(zip(succeeded, block.results, strict=True)):
        if place is None or not donated[place] or ins[place] != outs[number]:
            own.append(number)
        elif base is not None:
            pairs.setdefault(body.arguments[place], base)
    return Donation(pairs, tuple(own), tuple(_to_copy(block, pairs, habits)))


def paired(
    arguments: Sequence[object], results: Sequence[object], donated: Sequence[bool]
) -> list[int | None]:
    """The donated argument whose place each result takes, as jax pairs them."""
    free: dict[object, deque[int]] = {}
    for place, (argument, given) in enumerate(zip(arguments, donated, strict=True)):
        if given:
            free.setdefault(argument, deque()).append(place)
    return [free[r].popleft() if free.get(r) else None for r in results]


def _to_copy(
    block: Kernels, successors: dict[int, int], habits: MemoryHabits
) -> list[int]:
    """Donated arguments that some kernel may still read when they are overwritten."""
    maker: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    bits: dict[int, int] = {}
    before = [0] * len(block.kernels)
    for number, kernel in enumerate(block.kernels):
        waits = 0
        for value in kernel.reads:
            if value in maker:
                waits |= before[maker[value]]
            elif value in successors:
                readers.setdefault(value, []).append(number)
                bits.setdefault(number, 1 << len(bits))
        before[number] = waits | bits.get(number, 0)
        for value in kernel.writes:
            maker[value] = number
    copied = []
    for argument, result in successors.items():
        writer = maker.get(result)
        if writer is None or argument == result:
            continue
        seen = before[writer]
        collective = isinstance(block.kernels[writer].op, Collective)
        moved = collective and habits.collectives_apart
        if any(
            moved or not (habits.orders_reads or seen & bits[reader])
            for reader in readers.get(argument, ())
        ):
            copied.append(argument)
    return copied
