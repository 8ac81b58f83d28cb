"""`Kernel`: what a back end launches at once, and `Kernels`, those of a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from partir.rules.traits import Role
from partir.simulate.fold_multiplicity import Multiplicity, Span
from partir.spmd.manual_collectives import ManualCollective
from partir.spmd.program import Collective, Compute, Control, SpmdOp

T = TypeVar("T")


class Kernel(NamedTuple):
    """One launch: the op that it ends with, what it reads and writes in memory.

    `moved_bytes` is what goes through memory: a slice reads only its window;
    `made_bytes` is what it writes that was not there.
    `moves` are collectives that the model's author wrote inside the op.
    `by_hand` are functions kept whole: kernels that somebody wrote.
    `apart` is whether what it writes lies in a form of its own, so that it is written
    over nothing, and nothing over it.
    `waits` is whether a barrier makes it wait for some of what it reads.
    `handed_on` are results of a barrier with what they are, where that lies in memory.
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
    moves: tuple[ManualCollective, ...] = ()
    by_hand: bool = False
    apart: bool = False
    made_bytes: int = 0
    waits: bool = False
    handed_on: tuple[tuple[int, int], ...] = ()


def is_barrier(kernel: Kernel) -> bool:
    """Whether it only makes others wait: a barrier does nothing itself."""
    control = isinstance(kernel.op, Control) and not kernel.inner
    return control and kernel.role is Role.OPAQUE


def is_product(kernel: Kernel) -> bool:
    """Whether it is a product of matrices that a library makes."""
    if kernel.matmul is None or kernel.by_hand:
        return False
    return min(kernel.matmul[1:]) > 1


class Term(NamedTuple):
    """A term of a running sum over repetitions: the last `most` are in memory.

    `read` is where in the whole the last of them is read.
    """

    most: int
    read: float


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of a block, in program order.

    `results` are the block's as they lie in memory: a view has the number of the value
    that it is a view of; what is in no memory (a constant) is None. `carried` are
    arguments with what takes their place: in a loop's next iteration, or in the next
    call, where a result is said to.

    Of a folded program also: `handed` maps what the first repetition gets to the values
    in memory that later ones get instead from the one before; `counts` and `spans` are
    how many repetitions each kernel has, and where they stand in the whole; `terms` are
    values that later repetitions add up.
    """

    arguments: tuple[int, ...]
    kernels: list[Kernel]
    results: tuple[int | None, ...]
    carried: tuple[tuple[int, int | None], ...] = ()
    handed: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    counts: Sequence[int] = ()
    spans: Sequence[Span] = ()
    terms: Mapping[int, Term] = field(default_factory=dict)


def per_kernel(
    kernels: Sequence[Kernel], per_op: Sequence[T], otherwise: Callable[[Kernel], T]
) -> list[T]:
    """Of each kernel what is known of its op by number; others are asked for it."""
    return [
        per_op[kernel.op.node] if type(kernel.op) is Compute else otherwise(kernel)
        for kernel in kernels
    ]


def repetition_counts(
    kernels: Sequence[Kernel], multiplicity: Multiplicity
) -> list[int]:
    """Repetitions of each kernel; combined all-reduces of several are one."""

    def count(kernel: Kernel) -> int:
        if not kernel.members:
            return multiplicity.of(kernel.op)
        counts = {multiplicity.of(op) for op in kernel.members}
        return counts.pop() if len(counts) == 1 else 1

    return per_kernel(kernels, multiplicity.ops, count)
