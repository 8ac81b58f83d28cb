"""`Kernel`: what a back end launches at once, and `Kernels`, those of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from partir.rules.traits import Role
from partir.spmd.manual_collectives import ManualCollective
from partir.spmd.program import Collective, SpmdOp


class Kernel(NamedTuple):
    """One launch: the op that it ends with, what it reads and writes in memory.

    `moved_bytes` is what goes through memory: a slice reads only its window.
    `moves` are collectives that the model's author wrote inside the op.
    `copied` are values among its reads that it reads from a copy of its own.
    """

    op: SpmdOp
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    flops: float = 0.0
    transcendentals: float = 0.0
    matmul: tuple[int, int, int, int] | None = None
    moved_bytes: float = 0.0
    role: Role = Role.OPAQUE
    inner: tuple[Kernels, ...] = ()
    members: tuple[Collective, ...] = ()
    copied: tuple[int, ...] = ()
    moves: tuple[ManualCollective, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of a block, in program order.

    `results` are the block's as they lie in memory: a view has the number of the value
    that it is a view of; what is in no memory (a constant) is None.
    """

    arguments: tuple[int, ...]
    kernels: list[Kernel]
    results: tuple[int | None, ...]
