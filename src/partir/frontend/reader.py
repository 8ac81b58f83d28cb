"""Reading MLIR: types, attributes, locations, and closed regions as `Lambda`s."""

from __future__ import annotations

import re
from typing import Any

from jax.extend.mlir import ir

from partir.errors import PartitionError
from partir.frontend.locations import Locations
from partir.ir.attributes import CALLED, shardings
from partir.ir.core import Lambda, Op, Signature
from partir.ir.filled import CONSTANT
from partir.ir.source import Location
from partir.ir.types import TensorType, opaque_type, tensor

# Ops that stand for their operand: annotations without a meaning of their own here.
TRANSPARENT = frozenset(
    {
        "sdy.data_flow_edge",
        "sdy.propagation_barrier",
        "sdy.reshard",
        "sdy.sharding_constraint",
    }
)
RETURNS = frozenset({"func.return", "stablehlo.return", "sdy.return"})
MANUAL = "sdy.manual_computation"  # a shard_map: a local region
# Layouts for another partitioner, on any op: ours to decide.
_LAYOUTS = frozenset({"sdy.sharding", "mhlo.sharding"})

Attributes = tuple[tuple[str, str], ...]
# An op of a closed region: kind, attributes, operands, results, regions of its own.
_Inner = tuple[str, Attributes, tuple[int, ...], tuple[int, ...], tuple[Lambda, ...]]

_OPAQUE = ("!", "tuple<")  # types that are passed on as they are


class Reader:
    """Reads each distinct type, attribute and location of a module once."""

    def __init__(self, module: Any, borrowed: frozenset[str]) -> None:
        """Index the module's functions and meshes by their names."""
        self.functions: dict[str, Any] = {}
        for op in module.body.operations:
            if "sym_name" in op.attributes:
                self.functions[symbol_of(op)] = op
        self.locations = Locations(borrowed)
        self._types: dict[Any, TensorType] = {}
        self._attrs: dict[Any, str] = {}
        self._lambdas: dict[Any, Lambda] = {}

    # Types, attributes

    def type(self, mlir_type: Any) -> TensorType:
        """A value's type."""
        found = self._types.get(mlir_type)
        if found is None:
            found = self._types[mlir_type] = _read_type(mlir_type)
        return found

    def attrs(self, op: Any) -> dict[str, str]:
        """An op's attributes in MLIR's spelling, less layouts."""
        return dict(self.attribute_pairs(op))

    def attribute_pairs(self, op: Any) -> Attributes:
        """The same, each with its name."""
        try:
            attributes = op.attributes.items()
        except TypeError:  # the bindings can't read a complex constant
            return self._pairs_one_by_one(op)
        found, known = [], self._attrs
        for name, attr in attributes:
            if name not in _LAYOUTS:
                text = known.get(attr)
                if text is None:
                    text = known[attr] = _spelled(attr)
                found.append((name, text))
        return tuple(found)

    def _pairs_one_by_one(self, op: Any) -> Attributes:
        found = []
        for name in op.attributes:
            if name not in _LAYOUTS:
                try:
                    found.append((name, _spelled(op.attributes[name])))
                except TypeError:
                    found.append((name, _attribute_text(op, name)))
        return tuple(found)

    def callee(self, op: Any, attribute: str) -> Any:
        """The function that an attribute names."""
        return self.functions[ir.FlatSymbolRefAttr(op.attributes[attribute]).value]

    def mesh_text(self, text: str) -> str:
        """The mesh that shardings refer to, as ``B=4,M=2``."""
        axes = re.findall(r'"(\w+)"\s*=\s*(\d+)', self._mesh(text))
        return ",".join(f"{name}={size}" for name, size in axes)

    def reorders_devices(self, text: str) -> bool:
        """Whether the mesh that shardings refer to has devices in an order of its own.

        Where they are in their order, no mesh says so.
        """
        return "device_ids" in self._mesh(text)

    def _mesh(self, text: str) -> str:
        symbol = re.search(r"<@(\w+),", text)
        if symbol is None:  # spelled out in the sharding itself
            return text
        if symbol.group(1) not in self.functions:
            return ""
        return str(self.functions[symbol.group(1)].attributes["mesh"])

    # Closed regions

    def lambdas(self, op: Any, name: str) -> tuple[Lambda, ...]:
        """An op's regions, which must read nothing from outside.

        Functions that a custom call names (a comparison, say) count as its regions.
        """
        if CALLED in op.attributes:
            symbols = [ir.FlatSymbolRefAttr(a).value for a in op.attributes[CALLED]]
            return tuple(
                self._lambda(self.functions[s].regions[0], name) for s in symbols
            )
        return tuple(self._lambda(region, name) for region in op.regions)

    def _lambda(self, region: Any, name: str) -> Lambda:
        """A region; of those that are alike only the first is made."""
        if not region.blocks:
            return Lambda((), (), (), ())
        block = region.blocks[0]
        types: list[TensorType] = []
        ops: list[_Inner] = []
        arguments = _number(block.arguments, types, self.type)
        env = dict(zip(block.arguments, arguments, strict=True))
        results = self._lambda_block(block, env, types, ops, name)
        key = tuple(types), arguments, tuple(ops), results
        found = self._lambdas.get(key)
        if found is None:
            made = tuple([_inner_op(types, *op) for op in ops])
            found = self._lambdas[key] = Lambda(key[0], arguments, made, results)
        return found

    def _lambda_block(
        self,
        block: Any,
        env: dict[Any, int],
        types: list[TensorType],
        ops: list[_Inner],
        name: str,
    ) -> tuple[int, ...]:
        """Read a closed block's ops, calls inlined; returns what it yields."""
        for op in block.operations:
            op = op.operation
            for value in op.operands:
                if value not in env:
                    env[value] = self._copied(value, types, ops, op, name)
            operands = tuple([env[v] for v in op.operands])
            kind = op.name
            if kind in RETURNS:
                return operands
            if kind in TRANSPARENT:
                made = operands
            elif (inner := self._inlined(op, kind)) is not None:
                inside = dict(zip(inner.arguments, operands, strict=True))
                made = self._lambda_block(inner, inside, types, ops, name)
            else:
                made = _number(op.results, types, self.type)
                lambdas = self.lambdas(op, kind)
                ops.append((kind, self.attribute_pairs(op), operands, made, lambdas))
            env.update(zip(op.results, made, strict=True))
        return ()

    def _copied(
        self,
        value: Any,
        types: list[TensorType],
        ops: list[_Inner],
        reader: Any,
        name: str,
    ) -> int:
        """A constant from outside, which compilers move out of regions."""
        owner = value.owner
        is_op = isinstance(owner, ir.Operation | ir.OpView)
        if not is_op or owner.operation.name != CONSTANT:
            raise PartitionError(
                f"{name} at {self.locations.read(reader.location)} has a region that "
                "reads values from outside; only while, case and if may do so"
            )
        made = _number((value,), types, self.type)
        ops.append((CONSTANT, self.attribute_pairs(owner.operation), (), made, ()))
        return made[0]

    def _inlined(self, op: Any, kind: str) -> Any:
        """The block of a call, or of a local region that splits nothing further."""
        if kind == "func.call":
            return self.callee(op, "callee").regions[0].blocks[0]
        if kind == MANUAL and not any(
            any(dims)
            for which in ("in_shardings", "out_shardings")
            for dims in shardings(str(op.attributes[which]))
        ):
            return op.regions[0].blocks[0]
        return None


def symbol_of(op: Any) -> str:
    """The name of a function or mesh; "" for an op without one."""
    attributes = op.attributes
    named = "sym_name" in attributes
    return str(ir.StringAttr(attributes["sym_name"]).value) if named else ""


def _inner_op(
    types: list[TensorType],
    kind: str,
    attrs: Attributes,
    operands: tuple[int, ...],
    made: tuple[int, ...],
    lambdas: tuple[Lambda, ...],
) -> Op:
    read = tuple([types[v] for v in operands])
    results = tuple([types[v] for v in made])
    signature = Signature.of(kind, dict(attrs), read, results, lambdas)
    return Op(signature, operands, made, Location())


def _spelled(attr: Any) -> str:
    text = str(attr)
    if text.startswith("dense_resource<"):  # its numbers stand beside the module
        raise PartitionError(
            f"the module keeps the numbers of a constant apart, as {text}: write them "
            "into it as dense<…>, or pass them as an argument"
        )
    if text.startswith("sparse<"):  # nor does XLA read it
        raise PartitionError(
            f"the module has a sparse constant, {text}: write it as dense<…>"
        )
    return text


def _attribute_text(op: Any, name: str) -> str:
    """An attribute's spelling cut out of its op's, up to the bracket that closes it."""
    text: str = op.get_asm(print_generic_op_form=True)
    start = text.index(f"{name} = ") + len(name) + 3
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in "<[({") - (text[place] in ">])}")
        if depth < 0 or (depth == 0 and text[place] == ","):
            return text[start:place]
    return text[start:]


def _number(values: Any, types: list[TensorType], read: Any) -> tuple[int, ...]:
    """New numbers for values, whose types are appended."""
    first = len(types)
    types.extend([read(value.type) for value in values])
    return tuple(range(first, len(types)))


def _read_type(mlir_type: Any) -> TensorType:
    if not isinstance(mlir_type, ir.RankedTensorType):
        text = str(mlir_type)
        if not text.startswith(_OPAQUE):
            raise PartitionError(
                f"values of type {text} can't be partitioned: programs have tensors of "
                "known shapes, and tokens"
            )
        return opaque_type(text)
    if not mlir_type.has_static_shape:
        raise PartitionError(
            f"{mlir_type} has a size that is not known before running; partir needs "
            "static shapes: lower the program for concrete shapes"
        )
    return tensor(tuple(mlir_type.shape), str(mlir_type.element_type))
