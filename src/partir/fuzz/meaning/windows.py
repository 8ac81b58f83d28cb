"""Windows over padding: what XLA computes, for an interpreter that does otherwise.

StableHLO's text has padding count in a window, as what the reduction starts from; XLA
leaves padding out, on every back end, so that the start counts once in each window. It
is XLA that runs programs, and so its meaning is the one that is kept. The two differ
where the start is not the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir import ir

from partir.ir.attributes import ints
from partir.ir.types import tensor
from partir.rules.monoids import OPS, POWERS, neutral

_MONOIDS = {kind: name for name, kind in OPS.items()}


def leave_out_padding(op: Any) -> None:
    """Start from the identity, and count the start once behind the windows.

    rewrite:
        %y = reduce_window sum %x, %start, padding = [1, 0]
        ->
        %p = reduce_window sum %x, 0, padding = [1, 0]
        %y = add %p, %start
    """
    count = len(op.results)
    kinds = _combines(op, count)
    if kinds is None or not _is_padded(op):
        return
    create, before = ir.Operation.create, ir.InsertionPoint(op)
    starts = list(op.operands)[count:]
    for number, (kind, start) in enumerate(zip(kinds, starts, strict=True)):
        op.operands[count + number] = _identity(kind, start.type, before)
    behind = ir.InsertionPoint.after(op)
    for made, kind, start in zip(op.results, kinds, starts, strict=True):
        dims: dict[str, Any] = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
        spread = create(
            "stablehlo.broadcast_in_dim", [made.type], [start], dims, ip=behind
        )
        joined = create(kind, [made.type], [made, spread.result], ip=behind)
        made.replace_all_uses_except(joined.result, joined)


def _combines(op: Any, count: int) -> Sequence[str] | None:
    """The op that each value is combined by, if each is for itself and has one."""
    block = op.regions[0].blocks[0]
    *ops, last = block.operations
    given = list(block.arguments)
    if len(ops) != count:
        return None
    kinds = []
    for number, made in enumerate(last.operands):
        maker = next((one for one in ops if one.results[0] == made), None)
        pair = [given[number], given[number + count]]
        if maker is None or sorted(map(str, maker.operands)) != sorted(map(str, pair)):
            return None
        kinds.append(maker.name)
    powers = any(POWERS in str(value.type) for value in given)
    return kinds if all(map(_MONOIDS.get, kinds)) and not powers else None


def _is_padded(op: Any) -> bool:
    """Whether a window may have something in it that is no element of the operand."""
    attrs = {name: str(op.attributes[name]) for name in op.attributes}
    spread = ints(attrs.get("base_dilations", "array<i64>"))
    padding = ints(attrs.get("padding", "array<i64>"))
    return any(n > 1 for n in spread) or any(padding)


def _identity(kind: str, type_: Any, at: Any) -> Any:
    """A constant; a complex one of its parts, since the bindings can't hold it."""
    element = str(ir.RankedTensorType(type_).element_type)
    number = neutral(_MONOIDS[kind], tensor((), element))
    if not element.startswith("complex"):
        return _constant(number, type_, at)
    half = ir.Type.parse(f"tensor<{element[len('complex<') : -1]}>")
    parts = [_constant(part, half, at) for part in number.strip("()").split(",")]
    return ir.Operation.create("stablehlo.complex", [type_], parts, ip=at).result


def _constant(number: str, type_: Any, at: Any) -> Any:
    attrs = {"value": ir.Attribute.parse(f"dense<{number}> : {type_}")}
    kind = "stablehlo.constant"
    return ir.Operation.create(kind, [type_], attributes=attrs, ip=at).result
