"""StableHLO module -> `Program`: calls inlined, cheap producers cloned per use.

MLIR objects live and die in this file. The bindings are those inside jaxlib.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo as stablehlo

from partir.errors import PartitionError
from partir.frontend.builder import Builder
from partir.frontend.locations import Locations
from partir.ir.attributes import shardings
from partir.ir.core import Lambda, Location, Op, Signature
from partir.ir.garbage import collection_paused
from partir.ir.types import TensorType, opaque_type, tensor

_ARTIFACT_MAGIC = b"ML\xefR"
# Ops that stand for their operand: annotations without a meaning of their own here.
_TRANSPARENT = frozenset({"sdy.sharding_constraint", "sdy.propagation_barrier"})
_TRANSPARENT_CALLS = frozenset({"Sharding", "SPMDFullToShardShape", "annotate"})
_CONTROL = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})
_SYMBOLS = frozenset({"sdy.mesh"})
# Layouts for another partitioner, on any op: ours to decide.
_LAYOUTS = frozenset({"sdy.sharding", "mhlo.sharding"})
_RETURNS = frozenset({"func.return", "stablehlo.return", "sdy.return"})
# A shard_map: a local region. It remembers the mesh that it was written for.
MANUAL, MESH = "sdy.manual_computation", "partir.mesh"


def parse_module(source: str | bytes) -> Any:
    """Parse text or bytecode, or raise a PartitionError with MLIR's own reason."""
    context = jax_mlir.make_ir_context()
    try:
        if isinstance(source, bytes) and b"StableHLO_v" in source[:64]:
            return stablehlo.deserialize_portable_artifact(context, source)
        with context:
            return ir.Module.parse(source, context)
    except ir.MLIRError as error:
        reason = next((d.message for d in error.error_diagnostics), str(error))
        raise PartitionError(f"not a StableHLO module: {reason}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise PartitionError(f"not a StableHLO module: {error}") from None


@collection_paused
def import_module(module: Any) -> Builder:
    """Read a module's `main` into a builder, which `finish`es into a Program."""
    return _Importer(module).run()


class _Importer:
    """Walks one module. Attribute, type and location spellings are read once each."""

    def __init__(self, module: Any) -> None:
        self.functions: dict[str, Any] = {}
        for op in module.body.operations:
            if "sym_name" in op.attributes:
                self.functions[ir.StringAttr(op.attributes["sym_name"]).value] = op
        self.module = module
        self.builder = Builder()
        self.locations = Locations()
        self._types: dict[Any, TensorType] = {}
        self._attrs: dict[Any, str] = {}
        self._lambdas: dict[str, tuple[Lambda, ...]] = {}
        self._depth = 0

    def run(self) -> Builder:
        main = self._main()
        block = main.regions[0].blocks[0]
        builder = self.builder
        names = _argument_names(main, len(block.arguments))
        env: dict[Any, int] = {}
        builder.begin()
        arguments, argument_names = [], []
        for name, argument in zip(names, block.arguments, strict=True):
            type_ = self.type(argument.type)
            if _is_token(type_):
                env[argument] = self._token(type_)
                continue
            env[argument] = builder.value(type_)
            arguments.append(env[argument])
            argument_names.append(name)
        results = [v for v in self.block(block, env) if not _is_token(builder.types[v])]
        builder.body = builder.end(tuple(arguments), builder.settle(results))
        builder.name = ir.StringAttr(main.attributes["sym_name"]).value
        builder.argument_names = tuple(argument_names)
        return builder

    def _token(self, type_: TensorType) -> int:
        """Tokens of ordered effects are made inside; callers know nothing of them."""
        kind = "stablehlo.create_token"
        return self.builder.add(kind, {}, (), (type_,), Location())[0]

    def _main(self) -> Any:
        public = [f for f in self.functions.values() if f.operation.name == "func.func"]
        named = self.functions.get("main") or (public[0] if public else None)
        if named is None or not named.regions[0].blocks:
            raise PartitionError(
                "the module has no function to partition: expected @main, found "
                + (", ".join(f"@{n}" for n in self.functions) or "no function")
            )
        return named

    # Types, attributes

    def type(self, mlir_type: Any) -> TensorType:
        found = self._types.get(mlir_type)
        if found is None:
            found = self._types[mlir_type] = _read_type(mlir_type)
        return found

    def attrs(self, op: Any) -> dict[str, str]:
        found = {}
        known = self._attrs
        attributes = op.attributes
        for name in attributes:
            if name in _LAYOUTS:
                continue
            try:
                attr = attributes[name]
            except TypeError:  # the bindings can't read a complex constant
                found[name] = _attribute_text(op, name)
                continue
            text = known.get(attr)
            if text is None:
                text = known[attr] = str(attr)
            found[name] = text
        return found

    # Blocks and ops

    def block(self, block: Any, env: dict[Any, int]) -> tuple[int, ...]:
        """Import a block's ops; returns what its terminator yields."""
        for op in block.operations:
            op = op.operation
            name = op.name
            if name in _RETURNS:
                return tuple([env[v] for v in op.operands])
            self.op(op, name, env)
        return ()

    def op(self, op: Any, name: str, env: dict[Any, int]) -> None:
        if name == "func.call":
            self.inline(op, self._callee(op, "callee"), env)
        elif name == "stablehlo.composite":
            self.inline(op, self._callee(op, "decomposition"), env)
        elif name in _CONTROL:
            self.control(op, name, env)
        elif name in _TRANSPARENT or self._transparent_call(op, name):
            env.update(zip(op.results, [env[v] for v in op.operands], strict=True))
            self._annotate(op, env)
        elif name not in _SYMBOLS:
            self.plain(op, name, env)

    def _annotate(self, op: Any, env: dict[Any, int]) -> None:
        """A sharding constraint is a decision; where it can't be read, a note."""
        if "sharding" not in op.attributes:
            return self.builder.note(f"{op.name} left out")
        text = str(op.attributes["sharding"])
        (axes,) = shardings(text) or [()]
        if ":(" in text:
            return self.builder.note(f"{op.name} over part of an axis left out")
        return self.builder.annotate(env[op.results[0]], axes)

    def _transparent_call(self, op: Any, name: str) -> bool:
        if name != "stablehlo.custom_call":
            return False
        target = ir.StringAttr(op.attributes["call_target_name"]).value
        return target in _TRANSPARENT_CALLS

    def _callee(self, op: Any, attribute: str) -> Any:
        return self.functions[ir.FlatSymbolRefAttr(op.attributes[attribute]).value]

    def inline(self, op: Any, callee: Any, env: dict[Any, int]) -> None:
        block = callee.regions[0].blocks[0]
        operands = [env[v] for v in op.operands]
        inner = dict(zip(block.arguments, operands, strict=True))
        with self.locations.called_from(op.location):
            results = self.block(block, inner)
        env.update(zip(op.results, results, strict=True))

    def plain(self, op: Any, name: str, env: dict[Any, int]) -> None:
        operands = tuple([env[v] for v in op.operands])
        results = op.results
        types = tuple([self.type(r.type) for r in results])
        attrs = self.attrs(op)
        if name == MANUAL:
            attrs[MESH] = self._mesh_text(
                attrs["in_shardings"] + attrs["out_shardings"]
            )
        location = self.locations.read(op.location)
        lambdas = self.lambdas(op, name) if len(op.regions) else ()
        made = self.builder.add(name, attrs, operands, types, location, lambdas)
        for result, value in zip(results, made, strict=True):
            env[result] = value

    def _mesh_text(self, text: str) -> str:
        """The mesh that shardings refer to, as ``B=4,M=2``."""
        symbol = re.search(r"<@(\w+),", text)
        if symbol is None or symbol.group(1) not in self.functions:
            return ""
        mesh = str(self.functions[symbol.group(1)].attributes["mesh"])
        axes = re.findall(r'"(\w+)"\s*=\s*(\d+)', mesh)
        return ",".join(f"{name}={size}" for name, size in axes)

    # Regions

    def control(self, op: Any, name: str, env: dict[Any, int]) -> None:
        operands = tuple([env[v] for v in op.operands])
        location = self.locations.read(op.location)
        types = tuple([self.type(r.type) for r in op.results])
        importers = [self._region_importer(r, env) for r in op.regions]
        if name == "stablehlo.while":
            kept = _changing(op)
            results = self.builder.loop(operands, kept, importers, location)
        else:
            attrs = self.attrs(op)
            results = self.builder.branch(
                name, attrs, operands, types, importers, location
            )
        env.update(zip(op.results, results, strict=True))

    def _region_importer(self, region: Any, env: dict[Any, int]) -> Any:
        def run(arguments: Sequence[int]) -> tuple[int, ...]:
            block = region.blocks[0]
            inner = dict(env)
            inner.update(zip(block.arguments, arguments, strict=True))
            return self.block(block, inner)

        return run

    def lambdas(self, op: Any, name: str) -> tuple[Lambda, ...]:
        return tuple(self._lambda(region, name) for region in op.regions)

    def _lambda(self, region: Any, name: str) -> Lambda:
        if not region.blocks:
            return Lambda((), (), (), ())
        block = region.blocks[0]
        types: list[TensorType] = []
        env: dict[Any, int] = {}
        ops: list[Op] = []
        arguments = _number(block.arguments, types, self.type)
        env.update(zip(block.arguments, arguments, strict=True))
        results = self._lambda_block(block, env, types, ops, name)
        return Lambda(tuple(types), arguments, tuple(ops), results)

    def _lambda_block(
        self,
        block: Any,
        env: dict[Any, int],
        types: list[TensorType],
        ops: list[Op],
        name: str,
    ) -> tuple[int, ...]:
        """Import a closed block's ops, calls inlined; returns what it yields."""
        for op in block.operations:
            op = op.operation
            if any(v not in env for v in op.operands):
                raise PartitionError(
                    f"{name} at {self.locations.read(op.location)} has a region that "
                    "reads values from outside; only while, case and if may do so"
                )
            operands = tuple(env[v] for v in op.operands)
            if op.name in _RETURNS:
                return operands
            if op.name in _TRANSPARENT:
                made = operands
            elif (inner := self._inlined(op)) is not None:
                inside = dict(zip(inner.arguments, operands, strict=True))
                made = self._lambda_block(inner, inside, types, ops, name)
            else:
                made = _number(op.results, types, self.type)
                ops.append(self._inner_op(op, operands, made, types))
            env.update(zip(op.results, made, strict=True))
        return ()

    def _inlined(self, op: Any) -> Any:
        """The block of a call, or of a local region that splits nothing further."""
        if op.name == "func.call":
            return self._callee(op, "callee").regions[0].blocks[0]
        if op.name == MANUAL and not any(
            any(dims)
            for which in ("in_shardings", "out_shardings")
            for dims in shardings(str(op.attributes[which]))
        ):
            return op.regions[0].blocks[0]
        return None

    def _inner_op(
        self,
        op: Any,
        operands: tuple[int, ...],
        made: tuple[int, ...],
        types: list[Any],
    ) -> Op:
        signature = Signature.of(
            op.name,
            self.attrs(op),
            tuple(types[v] for v in operands),
            tuple(types[v] for v in made),
            self.lambdas(op, op.name),
        )
        return Op(signature, operands, made, Location())


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
    types.extend(read(value.type) for value in values)
    return tuple(range(first, len(types)))


def _changing(op: Any) -> tuple[bool, ...]:
    """Which operands of a while its body may return changed; the rest are captures."""
    block = op.regions[1].blocks[0]
    terminator = block.operations[len(block.operations) - 1]
    returned = terminator.operation.operands
    return tuple(
        argument != result
        for argument, result in zip(block.arguments, returned, strict=True)
    )


def _read_type(mlir_type: Any) -> TensorType:
    if not isinstance(mlir_type, ir.RankedTensorType):
        return opaque_type(str(mlir_type))
    if not mlir_type.has_static_shape:
        raise PartitionError(
            f"{mlir_type} has a size that is not known before running; partir needs "
            "static shapes: lower the program for concrete shapes"
        )
    return tensor(tuple(mlir_type.shape), str(mlir_type.element_type))


def _is_token(type_: TensorType) -> bool:
    return type_.dtype == "!stablehlo.token"


def _argument_names(main: Any, count: int) -> tuple[str, ...]:
    """Names that the module carries (`jax.arg_info`, location), else arg0, arg1, …"""
    names = [f"arg{i}" for i in range(count)]
    if "arg_attrs" in main.attributes:
        for i, attrs in enumerate(ir.ArrayAttr(main.attributes["arg_attrs"])):
            attrs = ir.DictAttr(attrs)
            if "jax.arg_info" in attrs:
                names[i] = ir.StringAttr(attrs["jax.arg_info"]).value
    return tuple(names)
