"""Results that are gathered, and the arguments whose place they take.

A collective does not write over an argument, so XLA for TPUs copies what it gathered.
It does not see that nothing else needs the argument's place until then, and copies the
argument as well, before all else. An argument that is kept until its successor is there
stays where it is. What fits into the memory beside the matrix units is copied there
anyway, and had better be free to go.
"""

from __future__ import annotations

from partir.ir.types import TensorType
from partir.rules.identities import WAITING, cites
from partir.rules.local import Emitter, Ssa
from partir.spmd.program import SpmdProgram
from partir.spmd.rewrites.sweep import collectives_of

_NEAR_BYTES = 1 << 27  # beside the matrix units of a TPU, since v4


def is_kept(type_: TensorType) -> bool:
    """Whether an argument that a gather succeeds is large enough to be kept."""
    return type_.bytes >= _NEAR_BYTES


def kept_arguments(program: SpmdProgram) -> dict[int, int]:
    """Arguments that are kept, by the gathers that make what takes their place."""
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
        and is_kept(types[value])
    }


@cites(WAITING)
def held_with_argument(emitter: Emitter, made: Ssa, argument: Ssa) -> Ssa:
    """What was gathered, behind a barrier with the argument that it succeeds.

    The exported text:
        %1 = all_gather 0 {B} %w ; return %1
        ->
        %1 = all_gather 0 {B} %w ; %2 = %1 after %p ; return %2
    """
    both = made, argument
    types = [ssa.type for ssa in both]
    return emitter.op("stablehlo.optimization_barrier", both, types)[0]
