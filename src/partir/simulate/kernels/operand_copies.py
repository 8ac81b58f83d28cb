"""Operands that matrix products copy before they read them, as XLA does on CPUs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from partir.rules.traits import Role
from partir.simulate.kernels.kernel import Kernels
from partir.simulate.kernels.operand_layouts import copied_bytes
from partir.spmd.program import Compute

_COPYING = (Role.CHEAP, Role.COSTLY, Role.VIEW)


def with_copies(block: Kernels) -> Kernels:
    """Matrix products that copy operands first, and the time for that."""
    fused = {v for k in block.kernels if k.role in _COPYING for v in k.writes}
    readers = Counter(v for kernel in block.kernels for v in kernel.reads)
    kernels = []
    for kernel in block.kernels:
        op = kernel.op
        sizes = copied_bytes(op.nest) if isinstance(op, Compute) else ()
        # What only this product reads is written as it wants it.
        copies = {
            value: size
            for value, size in zip(kernel.reads, sizes, strict=False)
            if size and not (value in fused and readers[value] == 1)
        }
        if copies:
            moved = kernel.moved_bytes + 2 * sum(copies.values())
            kernel = kernel._replace(copied=tuple(copies), moved_bytes=moved)
        kernels.append(kernel)
    return replace(block, kernels=kernels)
