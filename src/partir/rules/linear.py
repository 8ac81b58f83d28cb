"""Which ops a sum may move through: ``op(all_reduce x) == all_reduce(op x)``.

`linear(op, positions, zero)` tells whether the op, all operands but those at
`positions` being equal on the whole group, adds up over them; `zero(i)` tells whether
operand i is known to be zero everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from partir.ir.core import Op, Signature
from partir.ir.types import dtype_bytes
from partir.rules.elementwise import FUSED
from partir.rules.monoids import is_identity, monoid_of

Zero = Callable[[int], bool]
Linear = Callable[[Signature, frozenset[int], Zero], bool]

_table: dict[str, Linear] = {}


def _linear(*names: str) -> Callable[[Linear], Linear]:
    def register(function: Linear) -> Linear:
        for name in names:
            _table[name if "." in name else f"stablehlo.{name}"] = function
        return function

    return register


def kinds() -> tuple[str, ...]:
    """Op kinds that a sum may move through."""
    return tuple(sorted(_table))


def adds_up(
    op: Signature,
    operands: Sequence[int],
    positions: frozenset[int],
    splats: Mapping[int, str],
) -> bool:
    """`linear` for an op on values, of which `splats` are one number everywhere."""

    def zero(position: int) -> bool:
        splat = splats.get(operands[position])
        return is_identity("sum", op.operands[position], splat)

    return linear(op, positions, zero)


def linear(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    """Whether a sum over the operands at `positions` moves through the op."""
    found = _table.get(op.kind)
    if found is None:
        return False
    key = "linear", positions
    known: bool | None = op.cache.get(key)
    if known is None:
        asked = []

        def noted(position: int) -> bool:
            asked.append(position)
            return zero(position)

        known = found(op, positions, noted)
        if not asked:  # else it depends on more than the op
            op.cache[key] = known
    return known


@_linear("add", "subtract", "concatenate", "complex")
def _all_operands(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return all(i in positions or zero(i) for i in range(len(op.operands)))


@_linear("multiply", "dot", "dot_general", "einsum", "convolution", "chlo.ragged_dot")
def _one_operand(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    """A product may give another type than it takes: never a narrower one."""
    after = dtype_bytes(op.results[0].dtype)
    before = max(dtype_bytes(op.operands[i].dtype) for i in positions)
    return len(positions) == 1 and positions <= {0, 1} and before <= after


@_linear("negate", "transpose", "reshape", "reverse", "slice", "real", "imag", "fft")
@_linear("broadcast", "chlo.conj")
def _the_operand(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return True


@_linear("dynamic_update_slice")
def _both_written(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return positions <= {0, 1} and all(i in positions or zero(i) for i in (0, 1))


@_linear("divide", "gather", "dynamic_slice", "broadcast_in_dim")
@_linear("dynamic_broadcast_in_dim", "dynamic_reshape", "torch_index_select")
def _first_operand(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    floating = not op.results[0].dtype.startswith(("i", "ui"))
    return positions == {0} and (op.name != "divide" or floating)


@_linear("pad")
def _padded_with_zero(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return positions == {0} and zero(1)


@_linear("reduce", "reduce_window")
def _summed(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    single = len(op.operands) == 2 and monoid_of(op.lambdas[0]) == "sum"
    return single and positions == {0} and zero(1)


@_linear("scatter")
def _scattered(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    """Updates are added to the operand at places that are equal everywhere."""
    single = len(op.operands) == 3 and monoid_of(op.lambdas[0]) == "sum"
    both = all(i in positions or zero(i) for i in (0, 2))
    return single and 1 not in positions and both


@_linear("select_and_scatter")
def _scattered_back(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return positions == {1} and monoid_of(op.lambdas[1]) == "sum" and zero(2)


@_linear("triangular_solve")
def _solved_for(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return positions == {1}


@_linear("select")
def _chosen(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    return 0 not in positions and all(i in positions or zero(i) for i in (1, 2))


@_linear("convert")
def _widened(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    """Never narrower: a reduction keeps the precision that the source adds in."""
    before, after = op.operands[0].dtype, op.results[0].dtype
    return before == after


@_linear(FUSED)
def _all_inside(op: Signature, positions: frozenset[int], zero: Zero) -> bool:
    """Every op that a summand reaches is linear."""
    body = op.lambdas[0]
    place = {value: position for position, value in enumerate(body.arguments)}
    zeros = {o.results[0] for o in body.ops if not o.operands and _is_zero(o)}
    summed = {body.arguments[position] for position in positions}
    for inner in body.ops:
        values = inner.operands
        found = frozenset(i for i, v in enumerate(values) if v in summed)
        if found:

            def is_zero(i: int, values: tuple[int, ...] = values) -> bool:
                known = values[i] in place and zero(place[values[i]])
                return known or values[i] in zeros

            if not linear(inner.signature, found, is_zero):
                return False
            summed.update(inner.results)
    return True


def _is_zero(constant: Op) -> bool:
    splat = constant.signature.attrs["value"].partition(">")[0].removeprefix("dense<")
    return is_identity("sum", constant.signature.results[0], splat)
