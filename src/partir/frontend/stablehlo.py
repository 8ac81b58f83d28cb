"""StableHLO module -> `Program`: calls inlined, cheap producers cloned per use.

MLIR objects live and die in this folder. The bindings are those inside jaxlib. They are
asked for the first of all ops that are alike; which are, the module's numbers say.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from jax.extend.mlir import ir

from partir.errors import PartitionError
from partir.frontend.builder import Builder, is_plain
from partir.frontend.local_modules import is_local, local_refusal, refuse_exported
from partir.frontend.numbered import Row, Rows, numbered
from partir.frontend.reader import MANUAL, RETURNS, TRANSPARENT, Reader, symbol_of
from partir.ir.attributes import MESH
from partir.ir.core import Signature
from partir.ir.garbage import collection_paused
from partir.ir.source import Location
from partir.ir.types import TensorType

_Key = tuple[int, tuple[TensorType, ...]]  # which ops are alike, and types they read

_TRANSPARENT_CALLS = frozenset({"Sharding", "annotate"})
_MANUAL_CALLS = frozenset({"SPMDFullToShardShape", "SPMDShardToFullShape"})
_CONTROL = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})
_SYMBOLS = frozenset({"sdy.mesh"})
_CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
_SPECIAL = (
    _CONTROL
    | _SYMBOLS
    | RETURNS
    | TRANSPARENT
    | set(_CALLS)
    | {"stablehlo.custom_call"}
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
        rows = zip(module.body.operations, numbered(module).ops, strict=True)
        self._rows = {symbol_of(op): row.regions[0] for op, row in rows if row.regions}

    def run(self) -> Builder:
        main = self._main()
        rows = self._rows[symbol_of(main)]
        block = main.regions[0].blocks[0]
        builder = self.builder
        names = _argument_names(main, len(block.arguments))
        env: dict[int, int] = {}
        builder.begin()
        arguments, argument_names = [], []
        for name, argument, number in zip(
            names, block.arguments, rows.arguments, strict=True
        ):
            type_ = self.type(argument.type)
            if _is_token(type_):
                env[number] = self._token(type_)
                continue
            env[number] = builder.value(type_)
            arguments.append(env[number])
            argument_names.append(name)
        read = self.block(block, rows, env)
        results = [v for v in read if not _is_token(builder.types[v])]
        builder.body = builder.end(tuple(arguments), builder.settle(results))
        builder.name = symbol_of(main)
        builder.argument_names = tuple(argument_names)
        return builder

    def _token(self, type_: TensorType) -> int:
        """Tokens of ordered effects are made inside; callers know nothing of them."""
        kind = "stablehlo.create_token"
        return self.builder.add(kind, {}, (), (type_,), Location())[0]

    def _main(self) -> Any:
        public = [f for f in self.functions.values() if f.operation.name == "func.func"]
        named = self.functions.get("main") or (public[0] if public else None)
        if named is not None and not named.regions[0].blocks:
            raise PartitionError(
                f"@{symbol_of(named)} is declared and has no body to partition"
            )
        if named is None:
            raise PartitionError(
                "the module has no function to partition: expected @main, found "
                + (", ".join(f"@{n}" for n in self.functions) or "no function")
            )
        return named

    # Blocks and ops

    def block(self, block: Any, rows: Rows, env: dict[int, int]) -> tuple[int, ...]:
        """Import a block's ops; returns what its terminator yields."""
        ops, builder = _Ops(block), self.builder
        types, known, places = builder.types, self._signatures, self.locations.known()
        for place, row in enumerate(rows.ops):
            name, alike, location, read, results, _ = row
            operands = tuple([env[v] for v in read])
            signature = known.get((alike, tuple([types[v] for v in operands])))
            if signature is not None and location in places:  # most ops
                made = builder.place(signature, operands, places[location])
            elif name not in _SPECIAL:
                made = self.plain(row, operands, ops, place)
            elif name in RETURNS:
                return operands
            else:
                made = self.special(row, operands, ops, place, env)
            for result, value in zip(results, made, strict=True):
                env[result] = value
        return ()

    def special(
        self,
        row: Row,
        operands: tuple[int, ...],
        ops: _Ops,
        place: int,
        env: dict[int, int],
    ) -> tuple[int, ...]:
        """An op that is more than its kind, attributes and types, or less."""
        name, op = row.name, ops.at(place)
        if name in _CALLS:
            return self.inline(op, *self._called(op, _CALLS[name]), operands)
        if name == "sdy.named_computation":
            return self.inline(op, op, row.regions[0], operands)
        if name in _CONTROL:
            return self.control(op, row, operands, env)
        if name in TRANSPARENT or self._transparent_call(op, name):
            return self._constrained(op, operands)
        if name == "sdy.sharding_group":
            self.builder.note(f"{name} left out")
        elif name not in _SYMBOLS:  # a custom call that means something
            return self.plain(row, operands, ops, place)
        return ()

    def _constrained(self, op: Any, operands: tuple[int, ...]) -> tuple[int, ...]:
        """A sharding constraint is an op of its own; where it can't be read, a note.

        jax constrains PRNG keys on a mesh without axes, which says nothing.
        """
        if "sharding" not in op.attributes:
            self.builder.note(f"{op.name} left out")
            return operands
        text = str(op.attributes["sharding"])
        if ":(" in text:
            self.builder.note(f"{op.name} over part of an axis left out")
            return operands
        mesh = self.mesh_text(text)
        if not mesh or not op.results[0].type.rank:
            return operands
        (operand,), location = operands, self.locations.read(op.location)
        return (self.builder.constrain(operand, text, mesh, location),)

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

    def _called(self, op: Any, attribute: str) -> tuple[Any, Rows]:
        """The function that an attribute names."""
        callee = self.callee(op, attribute)
        return callee, self._rows[symbol_of(callee)]

    def inline(
        self, op: Any, callee: Any, rows: Rows, operands: tuple[int, ...]
    ) -> tuple[int, ...]:
        block = callee.regions[0].blocks[0]
        inner = dict(zip(rows.arguments, operands, strict=True))
        name = symbol_of(callee)
        with self.locations.called_from(op.location, name):
            return self.block(block, rows, inner)

    def plain(
        self, row: Row, operands: tuple[int, ...], ops: _Ops, place: int
    ) -> tuple[int, ...]:
        """An op without calls or control flow; alike ones are read once."""
        types, op = self.builder.types, ops.at(place)
        key = row.alike, tuple([types[v] for v in operands])
        signature = self._signatures.get(key)
        location = self.locations.read(op.location, row.location)
        if signature is None:
            return self._first(op, key, operands, location)
        return self.builder.place(signature, operands, location)

    def _first(
        self, op: Any, key: _Key, operands: tuple[int, ...], location: Location
    ) -> tuple[int, ...]:
        """An op that none before was like, or that is more than its signature."""
        name, attrs = op.name, self.attrs(op)
        results = tuple([self.type(result.type) for result in op.results])
        if name == MANUAL:
            attrs[MESH] = self._manual_mesh(op, attrs)
        lambdas = self.lambdas(op, name)
        if is_local(name, attrs, lambdas):
            raise local_refusal(name, location)
        if is_plain(name, attrs):
            signature = Signature.of(name, attrs, key[1], results, lambdas)
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

    def control(
        self, op: Any, row: Row, operands: tuple[int, ...], env: dict[int, int]
    ) -> tuple[int, ...]:
        location = self.locations.read(op.location)
        regions = zip(op.regions, row.regions, strict=True)
        importers = [self._region_importer(*region, env) for region in regions]
        if row.name == "stablehlo.while":
            kept = _changing(row.regions[1])
            return self.builder.loop(operands, kept, importers, location)
        types = tuple([self.type(r.type) for r in op.results])
        attrs = self.attrs(op)
        return self.builder.branch(
            row.name, attrs, operands, types, importers, location
        )

    def _region_importer(self, region: Any, rows: Rows, env: dict[int, int]) -> Any:
        def run(arguments: Sequence[int]) -> tuple[int, ...]:
            inner = dict(env)
            inner.update(zip(rows.arguments, arguments, strict=True))
            return self.block(region.blocks[0], rows, inner)

        return run


class _Ops:
    """A block's ops as the bindings show them; asked for in their order."""

    def __init__(self, block: Any) -> None:
        # The bindings' own iterator starts anew whenever it is asked for itself.
        self._left, self._next = (op for op in block.operations), 0

    def at(self, place: int) -> Any:
        """The op at a place, which is not before the last one asked for."""
        if place >= self._next:
            self._last = next(islice(self._left, place - self._next, None)).operation
            self._next = place + 1
        return self._last


def _changing(body: Rows) -> tuple[bool, ...]:
    """Which operands of a while its body may return changed; the rest are captures."""
    returned = body.ops[-1].operands
    return tuple([a != r for a, r in zip(body.arguments, returned, strict=True)])


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
