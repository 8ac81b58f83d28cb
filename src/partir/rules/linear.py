"""Which ops a sum may move through: ``op(all_reduce x) == all_reduce(op x)``.

`linear(op, positions, zero)` tells whether the op, all operands but those at
`positions` being equal on the whole group, adds up over them; `zero(i)` tells whether
operand i is known to be zero everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

from partir.ir.core import Signature
from partir.ir.types import dtype_bytes
from partir.rules.monoids import monoid_of

Zero = Callable[[int], bool]
Linear = Callable[[Signature, frozenset[int], Zero], bool]

_table: dict[str, Linear] = {}


def _linear(*names: str) -> Callable[[Linear], Linear]:
    def register(function: Linear) -> Linear:
        _table.update({f"stablehlo.{name}": function for name in names})
        return function

    return register


def linear(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    """Whether a sum over the operands at `positions` moves through the op."""
    found = _table.get(op.kind)
    return found is not None and found(op, positions, zero)


@_linear("add", "subtract", "concatenate")
def _all_operands(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return all(i in positions or zero(i) for i in range(len(op.operands)))


@_linear("multiply", "dot_general", "convolution")
def _one_operand(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    """A product may give another type than it takes: never a narrower one."""
    after = dtype_bytes(op.results[0].dtype)
    before = max(dtype_bytes(op.operands[i].dtype) for i in positions)
    return len(positions) == 1 and before <= after


@_linear("negate", "transpose", "reshape", "reverse", "slice", "real", "imag")
def _the_operand(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return True


@_linear("dynamic_update_slice")
def _both_written(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return positions <= {0, 1} and all(i in positions or zero(i) for i in (0, 1))


@_linear("divide", "gather", "dynamic_slice", "broadcast_in_dim")
def _first_operand(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    floating = not op.results[0].dtype.startswith(("i", "ui"))
    return positions == {0} and (op.name != "divide" or floating)


@_linear("pad")
def _padded_with_zero(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return positions == {0} and zero(1)


@_linear("reduce")
def _summed(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    single = len(op.operands) == 2 and monoid_of(op.lambdas[0]) == "sum"
    return single and positions == {0} and zero(1)


@_linear("select")
def _chosen(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return 0 not in positions and all(i in positions or zero(i) for i in (1, 2))


@_linear("convert")
def _widened(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    """Never narrower: a reduction keeps the precision that the source adds in."""
    before, after = op.operands[0].dtype, op.results[0].dtype
    return before == after
