"""What arithmetic may write over where a compiler tells its makers apart.

XLA on GPUs overwrites what a kernel made alone. Products make tuples (with their
workspace), collectives end in ops of their own, and a kernel that sums what it makes
has several results: nothing is written over these, but what is added to a product is
added where that is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from partir.ir.types import TensorType
from partir.rules.traits import Role, adds
from partir.simulate.kernels.kernel import Kernel, Kernels, is_product
from partir.spmd.program import Compute

ARITHMETIC = frozenset((Role.CHEAP, Role.COSTLY))


@dataclass(frozen=True, slots=True)
class FusedValues:
    """Values that kernels of arithmetic made alone, and sums with their products."""

    alone: Collection[int]
    product_of: dict[int, int]

    def overwritable(
        self, kernel: Kernel, dying: Sequence[int], types: Sequence[TensorType]
    ) -> list[int]:
        """Those of the values that a kernel of arithmetic writes over."""
        made = kernel.writes[0]
        product, shape = self.product_of.get(made), types[made].shape
        return [
            value
            for value in dying
            if types[value].shape == shape and (value in self.alone or value == product)
        ]


def fused_values(block: Kernels, types: Sequence[TensorType]) -> FusedValues:
    """Those of a block."""
    kernels = block.kernels
    readers = Counter(value for kernel in kernels for value in set(kernel.reads))
    readers.update(value for value in block.results if value is not None)
    single = {
        value
        for kernel in kernels
        if is_product(kernel)
        for value in kernel.writes
        if readers[value] == 1
    }
    arithmetic = [
        (kernel, kernel.op)
        for kernel in kernels
        if kernel.role in ARITHMETIC and isinstance(kernel.op, Compute)
    ]
    product_of = {
        kernel.writes[0]: value
        for kernel, op in arithmetic
        if adds(op.nest)
        for value in op.operands
        if value in single
    }
    roots = (kernel for kernel in kernels if kernel.role is Role.ROOT)
    apart = {*product_of, *(value for kernel in roots for value in kernel.reads)}
    apart.update(_together(kernels, types))
    made = (value for kernel, _ in arithmetic for value in kernel.writes)
    return FusedValues({value for value in made if value not in apart}, product_of)


def _together(kernels: Sequence[Kernel], types: Sequence[TensorType]) -> Iterator[int]:
    """What kernels of arithmetic make with the first that reads it: two results."""
    made: dict[int, Kernel] = {}
    for kernel in kernels:
        arithmetic = kernel.role in ARITHMETIC and isinstance(kernel.op, Compute)
        for value in kernel.reads:
            maker = made.pop(value, None)
            if maker is None or not arithmetic:
                continue
            if types[value].shape == types[kernel.writes[0]].shape:
                yield from (value, kernel.writes[0])
        if arithmetic:
            made[kernel.writes[0]] = kernel
