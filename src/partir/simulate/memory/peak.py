"""Peak memory of one device: live ranges over the schedule.

Arguments and results are there for the whole step; a result that takes a donated
argument's buffer needs none of its own. Everything else lives from the kernel that
writes it to the last that reads it. A kernel writes in place where it is elementwise
and what it reads is needed no more. As in XLA, a donated argument that is still read
when its successor may be written is copied, and buffers of results are lent to others
until the results are written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.kernel import Kernels
from partir.simulate.memory.live_ranges import Lives
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
) -> Peak:
    """Peak of a program whose kernels are in order; `schedule` orders loops' bodies."""
    types = program.types
    lives, own, copied = lives_of(program, block, donated, schedule)
    temporary, at = lives.peak()
    return Peak(
        sum(types[v].bytes for v in program.body.arguments),
        sum(types[program.body.results[n]].bytes for n in own),
        temporary,
        tuple(own),
        tuple(lives.alive(at)),
        copied,
    )


def lives_of(
    program: SpmdProgram,
    block: Kernels,
    donated: Sequence[bool],
    schedule: Callable[[Kernels], Kernels],
    times: Multiplicity | None = None,
) -> tuple[Lives, list[int], tuple[int, ...]]:
    """Live ranges, the results with their own buffers, the arguments to be copied.

    `times` is how often each argument and result is there, if not once.
    """
    types, body = program.types, program.body
    pairs = times.succeeded if times else None
    successors, own = _aliases(program, block, donated, pairs)
    copied = tuple(_to_copy(block, successors))
    lives = Lives(block, types, schedule, is_body=False)
    arguments = times.arguments if times else (1,) * len(body.arguments)
    results = times.results if times else (1,) * len(body.results)
    count = dict(zip(body.arguments, arguments, strict=True))
    for value in copied:
        size = types[value].bytes
        lives.add(size, 0, lives.last.get(value, 0), count[value])
        lives.lend(size, 1, lives.born[successors[value]], count[value])
    for number in own:
        result = block.results[number]
        if result in lives.born:
            size = types[body.results[number]].bytes
            lives.lend(size, 0, lives.born[result], results[number])
    return lives, own, copied


def _aliases(
    program: SpmdProgram,
    block: Kernels,
    donated: Sequence[bool],
    succeeded: Sequence[int | None] | None,
) -> tuple[dict[int, int], list[int]]:
    """Donated arguments with the results that take their place.

    Also the numbers of the results that need their own buffers.
    """
    body, types = program.body, program.types
    ins = [
        (types[v], t) for v, t in zip(body.arguments, program.in_tilings, strict=True)
    ]
    outs = [
        (types[v], t) for v, t in zip(body.results, program.out_tilings, strict=True)
    ]
    if succeeded is None:
        succeeded = paired(ins, outs, donated)
    pairs: dict[int, int] = {}
    own: list[int] = []
    for number, (place, base) in enumerate(zip(succeeded, block.results, strict=True)):
        if place is None or not donated[place] or ins[place] != outs[number]:
            own.append(number)
        elif base is not None:
            pairs.setdefault(body.arguments[place], base)
    return pairs, own


def paired(
    arguments: Sequence[object], results: Sequence[object], donated: Sequence[bool]
) -> list[int | None]:
    """The donated argument whose place each result takes, as jax pairs them."""
    free: dict[object, deque[int]] = {}
    for place, (argument, given) in enumerate(zip(arguments, donated, strict=True)):
        if given:
            free.setdefault(argument, deque()).append(place)
    return [free[r].popleft() if free.get(r) else None for r in results]


def _to_copy(block: Kernels, successors: dict[int, int]) -> list[int]:
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
    found = []
    for argument, result in successors.items():
        writer = maker.get(result)
        if writer is None or argument == result:
            continue
        seen = before[writer]
        if any(not seen & bits[reader] for reader in readers.get(argument, ())):
            found.append(argument)
    return found
