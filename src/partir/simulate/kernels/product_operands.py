"""Operands in the form and the type in which products read them.

XLA reads the operands of a matrix product as matrices, or batches of them, and on CPUs
multiplies 16-bit floats as float32. What is not so is written so first, once for all
products that want it in the same way; results are rounded behind the product. Sums over
devices are of float32 there, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.core import Signature
from partir.ir.types import TensorType, tensor
from partir.rules.nest import nest_of
from partir.rules.traits import is_narrow
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.kernels.operand_layouts import Form, operand_forms
from partir.spmd.preparations.flat_weights import flat_product
from partir.spmd.program import Collective, Compute, SpmdOp, SpmdProgram, node_of
from partir.spmd.rewrites.sweep import Sweep, run_pass
from partir.spmd.rewrites.table import drop_dead

_WIDE, _RESHAPE = "f32", "stablehlo.reshape"
_SUMS = frozenset(("all_reduce", "reduce_scatter"))
_PRODUCTS = frozenset(
    f"stablehlo.{kind}" for kind in ("convolution", "dot_general", "scatter")
)


def with_operands(program: SpmdProgram, device: DeviceSpec) -> SpmdProgram:
    """The program with operands as the device's products read them."""
    forms, wide = device.copies_operands, device.fusion.wide_products
    if not forms and not wide:
        return program
    flat = device.export.flattens_weights

    def one(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
        return _Operands(sweep, forms, wide, flat).run(ops)

    made = run_pass(program, one)
    return program if made is program else drop_dead(made)


class _Operands:
    """One block's operands of products, each in the forms in which it is read."""

    def __init__(self, sweep: Sweep, forms: bool, wide: bool, flat: bool) -> None:
        self.sweep, self.forms, self.wide, self.flat = sweep, forms, wide, flat
        self.made: list[SpmdOp] = []
        self.known: dict[tuple[int, str, Form], int] = {}
        self.changed = False
        self.matrices: dict[int, int] = {}  # what is a matrix in another shape

    def run(self, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
        """The block's ops, and those that write operands."""
        for op in ops:
            if isinstance(op, Compute) and op.nest.signature.kind in _PRODUCTS:
                self._product(op)
            elif isinstance(op, Collective) and op.kind in _SUMS and self.wide:
                self._sum(op)
            else:
                self._note(op)
                self.made.append(op)
        return self.made if self.changed else ops

    def _note(self, op: SpmdOp) -> None:
        if isinstance(op, Compute) and op.nest.signature.kind == _RESHAPE:
            (value,) = op.operands
            if len(self.sweep.types[value].shape) == 2:
                self.matrices[op.results[0]] = value

    def _product(self, op: Compute) -> None:
        forms = operand_forms(op.nest) if self.forms else None
        if forms and self.flat and flat_product(op.nest) is not None:
            forms = forms[0], None
        operands = list(op.operands)
        for place, value in enumerate(op.operands):
            form = forms[place] if forms else None
            if form == () and value in self.matrices:
                value = self.matrices[value]  # is read as the matrix that it was
            elif form is not None:
                value = self._formed(op.node, value, form)
            if self.wide and is_narrow(self.sweep.types[value]):
                value = self._converted(op.node, value, _WIDE)
            operands[place] = value
        self.changed |= tuple(operands) != op.operands
        result, *more = op.results
        type_ = self.sweep.types[result]
        if not self.wide or more or not is_narrow(type_):
            self.made.append(op._replace(operands=tuple(operands)))
            return
        wide = self.sweep.new(_with_dtype(type_, _WIDE))
        self.made.append(op._replace(operands=tuple(operands), results=(wide,)))
        self._convert(op.node, wide, result)

    def _sum(self, op: Collective) -> None:
        """Devices add float32, and readers round what they read."""
        types, node = self.sweep.types, node_of(op)
        if node is None or not is_narrow(types[op.operand]):
            self.made.append(op)
            return
        if op.result not in self.sweep.block.results:
            types[op.result] = _with_dtype(types[op.result], _WIDE)
        wide = self._converted(node, op.operand, _WIDE)
        self.made.append(op._replace(operand=wide))

    def _formed(self, node: int, value: int, form: Form) -> int:
        key = (value, "", form)
        if key not in self.known:
            type_ = self.sweep.types[value]
            order = form or range(len(type_.shape))
            shape = type_.with_shape(tuple(type_.shape[dim] for dim in order))
            self.known[key] = result = self.sweep.new(shape)
            kind, attrs = _RESHAPE, {}
            if form:
                kind = "stablehlo.transpose"
                attrs = {"permutation": f"array<i64: {', '.join(map(str, form))}>"}
            self._add(node, kind, attrs, value, result)
        return self.known[key]

    def _converted(self, node: int, value: int, dtype: str) -> int:
        key = (value, dtype, ())
        if key not in self.known:
            type_ = _with_dtype(self.sweep.types[value], dtype)
            self.known[key] = self.sweep.new(type_)
            self._convert(node, value, self.known[key])
        return self.known[key]

    def _convert(self, node: int, value: int, result: int) -> None:
        self._add(node, "stablehlo.convert", {}, value, result)

    def _add(
        self, node: int, kind: str, attrs: dict[str, str], value: int, result: int
    ) -> None:
        types = self.sweep.types
        signature = Signature.of(kind, attrs, (types[value],), (types[result],))
        self.made.append(Compute(node, nest_of(signature), (value,), (result,)))
        self.changed = True


def _with_dtype(type_: TensorType, dtype: str) -> TensorType:
    return tensor(type_.shape, dtype)
