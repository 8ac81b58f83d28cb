"""Whether a program gathers more than it computes with what is gathered.

A compiler that runs what it can as soon as it can gathers weights early, in a loop all
of an iteration at once. Told to mind memory instead, XLA on CPUs gathers each when it
is needed. It then also puts off what nobody waits for, and a device has nothing to do
while it waits for what others send: where activations are larger, steps take up to a
tenth longer, and less is saved.
"""

from __future__ import annotations

from partir.spmd.preparations.waits import is_opaque
from partir.spmd.program import SpmdProgram


def gathers_most(program: SpmdProgram) -> bool:
    """Whether gathers that wait for what they are needed with make more than products.

    A weight is gathered twice, and its gradient is a product: if activations take no
    room at all, gathers make twice as much.
    """
    tied = [op.result for op in program.moves if op.after >= 0]
    gathered = sum(program.types[value].bytes for value in tied)
    return gathered > 0 and gathered > _made_by_products(program)


def _made_by_products(program: SpmdProgram) -> int:
    """Bytes of all that no kernel makes on the side."""
    return sum(
        program.types[value].bytes
        for block in program.blocks
        for op in block.computing(is_opaque).values()
        for value in op.results
    )
