"""Results that are gathered, and the arguments whose place they take.

A collective does not write over an argument, so XLA for TPUs copies what it gathered.
It does not see that nothing else needs the argument's place until then, and copies the
argument as well, before all else. An argument that is kept until its successor is there
stays where it is. What fits into the memory beside the matrix units is copied there
anyway, and had better be free to go.
"""

from __future__ import annotations

from collections.abc import Mapping

from partir.rules.identities import WAITING, cites
from partir.rules.local import Emitter, Ssa
from partir.spmd.program import SpmdProgram
from partir.spmd.sweep import collectives_of

_NEAR_BYTES = 1 << 27  # beside the matrix units of a TPU, since v4


@cites(WAITING)
def held_with_arguments(
    emitter: Emitter, program: SpmdProgram, env: Mapping[int, Ssa]
) -> dict[int, Ssa]:
    """Gathered results, each behind a barrier with the argument that it succeeds.

    The exported text:
        %1 = all_gather 0 {B} %w ; return %1
        ->
        %1 = all_gather 0 {B} %w ; %2 = %1 after %p ; return %2
    """
    made = dict[int, Ssa]()
    succeeded = succeeded_by_gathers(program)
    if not are_kept(sum(program.types[value].bytes for value in succeeded)):
        return made
    for value, argument in succeeded.items():
        both = env[value], env[argument]
        types = [ssa.type for ssa in both]
        made[value] = emitter.op("stablehlo.optimization_barrier", both, types)[0]
    return made


def are_kept(size: int) -> bool:
    """Whether arguments of so many bytes together are kept until they are succeeded."""
    return size > _NEAR_BYTES


def succeeded_by_gathers(program: SpmdProgram) -> dict[int, int]:
    """Arguments of their successors' type, by the gathers that make these."""
    source, body, types = program.program, program.body, program.types
    places = {
        port.value: value
        for port, value in zip(source.arguments, body.arguments, strict=True)
    }
    succeeded = {
        tie.sources[0]: places[tie.targets[0]]
        for tie in source.ties
        if tie.owner is None
    }
    gathered = {op.result for op in collectives_of(body.ops) if op.kind == "all_gather"}
    return {
        value: succeeded[port.value]
        for port, value in zip(source.results, body.results, strict=True)
        if port.value in succeeded
        and value in gathered
        and types[value] == types[succeeded[port.value]]
    }
