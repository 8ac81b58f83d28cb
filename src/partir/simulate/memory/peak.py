"""Peak memory of one device: live ranges over the schedule.

Arguments and results are there for the whole step; a result that takes a donated
argument's buffer needs none of its own. Everything else lives from the kernel that
writes it to the last that reads it. A kernel writes in place where it is elementwise
and what it reads is needed no more. As in XLA, a donated argument that is still read
when its successor may be written is copied, and buffers of results are lent to others
until the results are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.kernel import Kernels
from partir.simulate.memory.donation import Donation, donation_of
from partir.simulate.memory.habits import NO_HABITS, MemoryHabits
from partir.simulate.memory.live_ranges import LiveRanges
from partir.simulate.memory.order import ordered_for_memory
from partir.simulate.memory.other_repetitions import OtherRepetitions
from partir.spmd.program import SpmdProgram


@dataclass(frozen=True, slots=True)
class Alive:
    """Something in memory at the peak."""

    name: str
    type: str
    bytes: int

    def __str__(self) -> str:
        """Bytes, type and name."""
        return f"{self.bytes:>14,}  {self.type:24} {self.name}"


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes at the peak: in all, and by what they are for."""

    argument_bytes: int
    result_bytes: int
    temporary_bytes: int
    results: tuple[int, ...]  # numbers of the results that have their own buffers
    alive: tuple[int, ...]  # temporaries at the peak
    copied: tuple[int, ...]  # donated arguments that have to be copied

    @property
    def bytes(self) -> int:
        """Everything."""
        return self.argument_bytes + self.result_bytes + self.temporary_bytes


def peak_memory(
    program: SpmdProgram,
    block: Kernels,
    donated: Sequence[bool],
    schedule: Callable[[Kernels], Kernels],
    multiplicity: Multiplicity | None = None,
    habits: MemoryHabits = NO_HABITS,
) -> Peak:
    """Peak of a program whose kernels are in order; `schedule` orders loops' bodies.

    `multiplicity` is what a folded program stands for, `habits` what the compiler does
    about memory.
    """
    at_once = habits.updates_at_once and any(donated)
    block = ordered_for_memory(block, habits.gathers_ahead, at_once)
    if multiplicity is not None:
        program, block = _own_results(program, block, len(multiplicity.results))
    types, body = program.types, program.body
    others = OtherRepetitions(types, multiplicity) if multiplicity else None
    lives = LiveRanges(block, types, schedule, False, others, habits)
    arguments = multiplicity.arguments if multiplicity else [1] * len(body.arguments)
    results = multiplicity.results if multiplicity else [1] * len(body.results)
    donation = donation_of(program, block, donated, multiplicity, habits)
    _reuse(lives, program, donation, arguments, results)
    temporary, place = lives.peak()
    pairs = zip(body.arguments, arguments, strict=True)
    return Peak(
        sum(types[v].bytes * count for v, count in pairs),
        sum(types[body.results[n]].bytes * results[n] for n in donation.own),
        temporary,
        donation.own,
        tuple(lives.alive(place)),
        donation.copied,
    )


def _own_results(
    program: SpmdProgram, block: Kernels, count: int
) -> tuple[SpmdProgram, Kernels]:
    """Without results that are only handed from one repetition to the next."""
    body = replace(program.body, results=program.body.results[:count])
    tilings = program.out_tilings[:count]
    block = replace(block, results=block.results[:count])
    return replace(program, body=body, out_tilings=tilings), block


def _reuse(
    lives: LiveRanges,
    program: SpmdProgram,
    donation: Donation,
    arguments: Sequence[int],
    results: Sequence[int],
) -> None:
    """Add copies of donated arguments, and lend buffers until results are written."""
    types, body = program.types, program.body
    count = dict(zip(body.arguments, arguments, strict=True))
    for value in donation.copied:
        size = types[value].bytes
        lives.add(size, 0, lives.last.get(value, 0), count[value])
        lives.lend(size, 1, lives.born[donation.successors[value]], count[value])
    _gather_apart(lives, program, donation)
    for number in donation.own:
        result = lives.block.results[number]
        if result in lives.born:
            size = types[body.results[number]].bytes
            lives.lend(size, 0, lives.born[result], results[number])


def _gather_apart(lives: LiveRanges, program: SpmdProgram, donation: Donation) -> None:
    """Add what is gathered beside arguments, until it is copied over them."""
    born = [lives.born[donation.successors[value]] for value in donation.kept]
    for value, begin in zip(donation.kept, born, strict=True):
        end = born[-1] if lives.habits.copies_at_end else begin
        lives.add(program.types[value].bytes, begin, end, 1)
