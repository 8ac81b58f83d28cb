"""What the reference interpreter gets wrong, or ends on, written in another way."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jax.extend.mlir import ir

from partir.fuzz.meaning.windows import leave_out_padding
from partir.ir.attributes import fields

_OUTPUT = re.compile(r"->\[([^\]]*)\]")


def make_safe(module: Any) -> None:
    """Change a parsed module so that interpreting it gives results."""
    found: list[tuple[Callable[[Any], None], Any]] = []

    def visit(op: Any) -> Any:
        if op.name in _UNSAFE:
            found.append((_UNSAFE[op.name], op))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for change, op in found:
        change(op)


def _divide(op: Any) -> None:
    """Divide integers by one instead of zero: StableHLO leaves open what that gives."""
    type_ = ir.RankedTensorType(op.operands[1].type)
    if str(type_.element_type).startswith(("i", "ui")):
        op.operands[1] = _without_zeros(op, type_)


def _without_zeros(op: Any, type_: Any) -> Any:
    create, before = ir.Operation.create, ir.InsertionPoint(op)
    zeros, ones = (splat(type_, n, before) for n in (0, 1))
    divisor = op.operands[1]
    is_zero = _compared("EQ", divisor, zeros, before)
    kind = "stablehlo.select"
    return create(kind, [type_], [is_zero, ones, divisor], ip=before).result


def _convolve(op: Any) -> None:
    """Give the result with its batch before its features, then change them back."""
    text = str(op.attributes["dimension_numbers"])
    places = _OUTPUT.search(text)
    assert places is not None, text
    letters = places[1].split(", ")
    batch, feature = letters.index("b"), letters.index("f")
    if batch < feature:
        return
    letters[batch], letters[feature] = "f", "b"
    order = list(range(len(letters)))
    order[batch], order[feature] = feature, batch
    attrs = {name: op.attributes[name] for name in op.attributes}
    attrs["dimension_numbers"] = ir.Attribute.parse(
        f"{text[: places.start()]}->[{', '.join(letters)}]{text[places.end() :]}"
    )
    type_ = ir.RankedTensorType(op.results[0].type)
    turned = ir.RankedTensorType.get(
        [type_.shape[d] for d in order], type_.element_type
    )
    create, before = ir.Operation.create, ir.InsertionPoint(op)
    made = create(op.name, [turned], list(op.operands), attrs, ip=before).result
    back: dict[str, Any] = {"permutation": ir.DenseI64ArrayAttr.get(order)}
    result = create("stablehlo.transpose", [type_], [made], back, ip=before).result
    op.results[0].replace_all_uses_with(result)
    op.erase()


def _product(op: Any) -> None:
    """A sum of nothing is zero: the interpreter ends on it."""
    shapes = [ir.RankedTensorType(v.type).shape for v in op.operands]
    if all(all(shape) for shape in shapes):
        if op.name == "stablehlo.convolution":
            _convolve(op)
        return
    zeros = splat(op.results[0].type, 0, ir.InsertionPoint(op))
    op.results[0].replace_all_uses_with(zeros)
    op.erase()


def splat(type_: Any, number: int, at: Any) -> Any:
    """One small number everywhere. The bindings can't hold a complex constant."""
    type_, create = ir.RankedTensorType(type_), ir.Operation.create
    element = str(type_.element_type)
    if element.startswith("complex"):
        part = ir.Type.parse(element[len("complex<") : -1])
        real = ir.RankedTensorType.get(type_.shape, part)
        parts = [splat(real, n, at) for n in (number, 0)]
        return create("stablehlo.complex", [type_], parts, ip=at).result
    text = f"{number}.0" if "f" in element else str(number)
    if element == "i1":
        text = "true" if number else "false"
    attrs = {"value": ir.Attribute.parse(f"dense<{text}> : {type_}")}
    return create("stablehlo.constant", [type_], attributes=attrs, ip=at).result


def _scatter(op: Any) -> None:
    """Scatter into copies: the interpreter writes into the operands themselves."""
    before = ir.InsertionPoint(op)
    for place, operand in enumerate(list(op.operands)[: len(op.results)]):
        copy = ir.Operation.create(
            "stablehlo.convert", [operand.type], [operand], ip=before
        )
        op.operands[place] = copy.result


def _indices(first: int, last: int | None = None) -> Callable[[Any], None]:
    """Index with signed numbers: unsigned ones are read as signed if they are large."""

    def change(op: Any) -> None:
        for place in range(len(op.operands))[first:last]:
            type_ = ir.RankedTensorType(op.operands[place].type)
            if str(type_.element_type).startswith("ui"):
                op.operands[place] = _signed(op, op.operands[place], type_)

    return change


def _signed(op: Any, index: Any, type_: Any) -> Any:
    """The same number or, where it is beyond all sizes, the largest that there is."""
    create, before = ir.Operation.create, ir.InsertionPoint(op)
    bits = ir.IntegerType(type_.element_type).width
    limit = splat(type_, min(2**bits, 2**63) - 1, before)
    least = create("stablehlo.minimum", [type_], [index, limit], ip=before).result
    wide = ir.RankedTensorType.get(type_.shape, ir.IntegerType.get_signless(64))
    return create("stablehlo.convert", [wide], [least], ip=before).result


def _transform(op: Any) -> None:
    """Transform in double precision: the interpreter knows no other."""
    if "f32" not in str(op.results[0].type):
        return
    before = ir.InsertionPoint(op)
    wide = [_as_double(value.type) for value in (op.operands[0], op.results[0])]
    attrs = {name: op.attributes[name] for name in op.attributes}
    made = _converted(op.operands[0], wide[0], before)
    made = ir.Operation.create(op.name, [wide[1]], [made], attrs, ip=before).result
    made = _converted(made, op.results[0].type, before)
    op.results[0].replace_all_uses_with(made)
    op.erase()


def _as_double(type_: Any) -> Any:
    return ir.Type.parse(str(type_).replace("f32", "f64"))


def _converted(value: Any, type_: Any, at: Any) -> Any:
    kind = "stablehlo.convert"
    return ir.Operation.create(kind, [type_], [value], ip=at).result


def _both(*changes: Callable[[Any], None]) -> Callable[[Any], None]:
    def change(op: Any) -> None:
        for one in changes:
            one(op)

    return change


def _scatter_indices(op: Any) -> None:
    """Leave out whole windows that reach over the edge, as XLA does.

    The interpreter writes what of them is inside. Where one does not fit, its index
    becomes one beyond the edge; so does one before the first.
    """
    count = len(op.results)
    _indices(count, count + 1)(op)
    numbers = _Scatter.of(op)
    index = op.operands[count]
    type_, before = ir.RankedTensorType(index.type), ir.InsertionPoint(op)
    limits, beyond = (
        _along(type_, numbers.vector, n, before)
        for n in (numbers.limits, numbers.sizes)
    )
    zeros = splat(type_, 0, before)
    ends = [("GE", zeros), ("LE", limits)]
    inside = [_compared(way, index, end, before) for way, end in ends]
    create = ir.Operation.create
    fits = create("stablehlo.and", [inside[0].type], inside, ip=before).result
    chosen = [fits, index, beyond]
    op.operands[count] = create("stablehlo.select", [type_], chosen, ip=before).result


def _compared(direction: str, left: Any, right: Any, at: Any) -> Any:
    shape = ir.RankedTensorType(left.type).shape
    boolean = ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(1))
    spelled = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
    attrs = {"comparison_direction": spelled}
    kind = "stablehlo.compare"
    return ir.Operation.create(kind, [boolean], [left, right], attrs, ip=at).result


@dataclass(frozen=True)
class _Scatter:
    """Of each number of an index: the largest that fits, and the operand's size."""

    vector: int
    limits: list[int]
    sizes: list[int]

    @staticmethod
    def of(op: Any) -> _Scatter:
        """Read the dimension numbers."""
        found = fields(str(op.attributes["scatter_dimension_numbers"]))
        operand = list(ir.RankedTensorType(op.operands[0].type).shape)
        updates = list(
            ir.RankedTensorType(op.operands[len(op.operands) - 1].type).shape
        )
        single = (*found.get("inserted_window_dims", ()),)
        single += found.get("input_batching_dims", ())
        windows = iter([updates[d] for d in found.get("update_window_dims", ())])
        window = [1 if d in single else next(windows) for d in range(len(operand))]
        dims = found["scatter_dims_to_operand_dims"]
        vector = found.get("index_vector_dim", (0,))[0]
        limits = [operand[d] - window[d] for d in dims]
        return _Scatter(vector, limits, [operand[d] for d in dims])


def _along(type_: Any, dim: int, numbers: list[int], at: Any) -> Any:
    """Numbers along a dimension of an index; where it has none, the only one."""
    if dim == type_.rank:
        return splat(type_, numbers[0], at)
    row = ir.RankedTensorType.get([len(numbers)], type_.element_type)
    attrs = {"value": ir.Attribute.parse(f"dense<{numbers}> : {row}")}
    made = ir.Operation.create("stablehlo.constant", [row], attributes=attrs, ip=at)
    where: dict[str, Any] = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([dim])}
    kind = "stablehlo.broadcast_in_dim"
    return ir.Operation.create(kind, [type_], [made.result], where, ip=at).result


_UNSAFE: dict[str, Callable[[Any], None]] = {
    "stablehlo.divide": _divide,
    "stablehlo.remainder": _divide,
    "stablehlo.convolution": _product,
    "stablehlo.dot_general": _product,
    "stablehlo.dynamic_slice": _indices(1),
    "stablehlo.dynamic_update_slice": _indices(2),
    "stablehlo.fft": _transform,
    "stablehlo.gather": _indices(1),
    "stablehlo.reduce_window": leave_out_padding,
    "stablehlo.scatter": _both(_scatter, _scatter_indices),
}
