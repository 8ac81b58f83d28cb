"""StableHLO module -> `Program`: calls inlined, cheap producers cloned per use.

MLIR objects live and die in this folder. The bindings are those inside jaxlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir import ir

from partir.errors import PartitionError
from partir.frontend.builder import Builder, is_plain
from partir.frontend.local_modules import is_local, local_refusal, refuse_exported
from partir.frontend.reader import MANUAL, RETURNS, TRANSPARENT, Attributes, Reader
from partir.ir.attributes import CALLED, MESH
from partir.ir.core import Lambda, Signature
from partir.ir.garbage import collection_paused
from partir.ir.source import Location
from partir.ir.types import TensorType

# Kind, attributes, types of operands and of results, closed regions.
_Types = tuple[TensorType, ...]
_Key = tuple[str, Attributes, _Types, _Types, tuple[Lambda, ...]]

_TRANSPARENT_CALLS = frozenset({"Sharding", "annotate"})
_MANUAL_CALLS = frozenset({"SPMDFullToShardShape", "SPMDShardToFullShape"})
_CONTROL = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})
_SYMBOLS = frozenset({"sdy.mesh"})
_SPECIAL = (
    _CONTROL
    | _SYMBOLS
    | RETURNS
    | TRANSPARENT
    | {"func.call", "stablehlo.composite", "stablehlo.custom_call"}
    | {"sdy.named_computation", "sdy.sharding_group"}
)


@collection_paused
def import_module(module: Any, borrowed: frozenset[str] = frozenset()) -> Builder:
    """Read a module's `main` into a builder, which `finish`es into a Program.

    `borrowed` names functions of jax's own, whose lines are those of their callers.
    """
    refuse_exported(module)
    return _Importer(module, borrowed).run()


class _Importer(Reader):
    """Walks one module, from `main` into every call and region."""

    def __init__(self, module: Any, borrowed: frozenset[str]) -> None:
        super().__init__(module, borrowed)
        self.builder = Builder()
        self._signatures: dict[_Key, Signature] = {}

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

    # Blocks and ops

    def block(self, block: Any, env: dict[Any, int]) -> tuple[int, ...]:
        """Import a block's ops; returns what its terminator yields."""
        for op in block.operations:
            op = op.operation
            name = op.name
            if name not in _SPECIAL:
                self.plain(op, name, env)
            elif name in RETURNS:
                return tuple([env[v] for v in op.operands])
            else:
                self.special(op, name, env)
        return ()

    def special(self, op: Any, name: str, env: dict[Any, int]) -> None:
        """An op that is more than its kind, attributes and types, or less."""
        if name == "func.call":
            self.inline(op, self.callee(op, "callee"), env)
        elif name == "stablehlo.composite":
            self.inline(op, self.callee(op, "decomposition"), env)
        elif name == "sdy.named_computation":
            self.inline(op, op, env)
        elif name in _CONTROL:
            self.control(op, name, env)
        elif name in TRANSPARENT or self._transparent_call(op, name):
            env.update(zip(op.results, [env[v] for v in op.operands], strict=True))
            self._constrain(op, env)
        elif name == "sdy.sharding_group":
            self.builder.note(f"{name} left out")
        elif name not in _SYMBOLS:  # a custom call that means something
            self.plain(op, name, env)

    def _constrain(self, op: Any, env: dict[Any, int]) -> None:
        """A sharding constraint is an op of its own; where it can't be read, a note.

        jax constrains PRNG keys on a mesh without axes, which says nothing.
        """
        if "sharding" not in op.attributes:
            return self.builder.note(f"{op.name} left out")
        text = str(op.attributes["sharding"])
        if ":(" in text:
            return self.builder.note(f"{op.name} over part of an axis left out")
        mesh = self.mesh_text(text)
        if mesh and op.results[0].type.rank:
            (result,), location = op.results, self.locations.read(op.location)
            env[result] = self.builder.constrain(env[result], text, mesh, location)
        return None

    def _transparent_call(self, op: Any, name: str) -> bool:
        if name != "stablehlo.custom_call":
            return False
        target = ir.StringAttr(op.attributes["call_target_name"]).value
        if target in _MANUAL_CALLS:
            raise PartitionError(
                f"the module holds a shard_map at {self.locations.read(op.location)} "
                f"that was lowered for another partitioner, as calls to {target}: "
                "lower it with jax_use_shardy_partitioner on"
            )
        return target in _TRANSPARENT_CALLS

    def inline(self, op: Any, callee: Any, env: dict[Any, int]) -> None:
        block = callee.regions[0].blocks[0]
        operands = [env[v] for v in op.operands]
        inner = dict(zip(block.arguments, operands, strict=True))
        named = "sym_name" in callee.attributes
        name = str(callee.attributes["sym_name"]).strip('"') if named else ""
        with self.locations.called_from(op.location, name):
            results = self.block(block, inner)
        env.update(zip(op.results, results, strict=True))

    def plain(self, op: Any, name: str, env: dict[Any, int]) -> None:
        """An op without calls or control flow; alike ones are read once."""
        operands = tuple(map(env.__getitem__, op.operands))
        results = tuple(op.results)
        given = tuple(map(self.builder.types.__getitem__, operands))
        types = tuple([self.type(r.type) for r in results])
        location = self.locations.read(op.location)
        lambdas = self.lambdas(op, name) if len(op.regions) else ()
        key = (name, self.attribute_pairs(op), given, types, lambdas)
        signature = self._signatures.get(key)
        if signature is None:
            made = self._first(op, key, operands, location)
        else:
            made = self.builder.place(signature, operands, location)
        for result, value in zip(results, made, strict=True):
            env[result] = value

    def _first(
        self, op: Any, key: _Key, operands: tuple[int, ...], location: Location
    ) -> tuple[int, ...]:
        """An op that none before was like, or that is more than its signature."""
        name, pairs, types, results, lambdas = key
        attrs = dict(pairs)
        if name == MANUAL:
            attrs[MESH] = self._manual_mesh(op, attrs)
        if CALLED in attrs:
            lambdas = self.lambdas(op, name)
        if is_local(name, attrs, lambdas):
            raise local_refusal(name, location)
        if CALLED not in attrs and is_plain(name, attrs):
            signature = Signature.of(name, attrs, types, results, lambdas)
            self._signatures[key] = signature
            return self.builder.place(signature, operands, location)
        return self.builder.add(name, attrs, operands, results, location, lambdas)

    def _manual_mesh(self, op: Any, attrs: dict[str, str]) -> str:
        """The mesh of a shard_map, whose devices have the numbers of their places."""
        text = attrs["in_shardings"] + attrs["out_shardings"]
        if self.reorders_devices(text):
            raise PartitionError(
                f"the shard_map at {self.locations.read(op.location)} is over a mesh "
                "whose devices are not in their order: make the mesh of jax.devices() "
                "as they come"
            )
        return self.mesh_text(text)

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


def _changing(op: Any) -> tuple[bool, ...]:
    """Which operands of a while its body may return changed; the rest are captures."""
    block = op.regions[1].blocks[0]
    terminator = block.operations[len(block.operations) - 1]
    returned = terminator.operation.operands
    return tuple(
        argument != result
        for argument, result in zip(block.arguments, returned, strict=True)
    )


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
