"""Donated arguments: which results take their buffers, which must be copied first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.kernel import Kernels
from partir.simulate.memory.habits import MemoryHabits
from partir.spmd.preparations.succeeding import is_kept
from partir.spmd.program import Collective, SpmdProgram


@dataclass(frozen=True, slots=True)
class Donation:
    """Donated arguments with the values that take their place.

    `own` are numbers of the results that need their own buffers, `copied` the
    arguments that are still read when their successors are written, `kept` those that
    stay until their successors were gathered beside them.
    """

    successors: dict[int, int]
    own: tuple[int, ...]
    copied: tuple[int, ...]
    kept: tuple[int, ...]


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
    copied = _to_copy(block, pairs, habits)
    kept = _kept(program, block, pairs, copied) if habits.keeps_arguments else []
    copied = [value for value in copied if value not in kept]
    return Donation(pairs, tuple(own), tuple(copied), tuple(kept))


def _kept(
    program: SpmdProgram, block: Kernels, pairs: dict[int, int], copied: Sequence[int]
) -> list[int]:
    """Those of the arguments to copy that the exporter keeps, in their turn."""
    gathers = [
        op.result
        for op in (kernel.op for kernel in block.kernels)
        if isinstance(op, Collective) and op.kind == "all_gather"
    ]
    turns = {value: place for place, value in enumerate(gathers)}
    large = [value for value in copied if is_kept(program.types[value])]
    found = [value for value in large if pairs[value] in turns]
    return sorted(found, key=lambda value: turns[pairs[value]])


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
