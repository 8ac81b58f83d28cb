"""The module that each device runs, read back as it stands, as a `Program`.

Its shapes are local. Nothing is put into normal form, copied or left out;
collectives are ops like others.
The verifier reads what was exported this way, not the data that it was written from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jax.extend.mlir import ir

from partir.errors import PartitionError
from partir.frontend.channels import CHANNEL, one_channel
from partir.frontend.parsing import parse_module
from partir.frontend.read_lines import read_lines
from partir.frontend.reader import RETURNS, Reader
from partir.ir.attributes import CALLED
from partir.ir.core import Op, Port, Program, Region, Signature
from partir.ir.garbage import collection_paused
from partir.ir.types import TensorType

_CONTROL = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})


Types = tuple[TensorType, ...]
Kept = Callable[[str, Types, Types], Mapping[str, str] | None]


@collection_paused
def read_device_local(source: str | bytes, kept: Kept | None = None) -> Program:
    """Parse a device-local module and number its values, calls inlined.

    But for calls that `kept` gives attributes for, by the function's symbol and types:
    these are custom calls with such attributes.
    """
    plain = read_lines(source) if isinstance(source, str) else None
    return plain or read_module(source, kept)


def read_module(source: str | bytes, kept: Kept | None = None) -> Program:
    """The same, op by op of MLIR's: whatever is in it, and slower."""
    module = parse_module(source)  # lives as long as what is read of it
    return _Plain(module, kept).run()


class _Plain(Reader):
    def __init__(self, module: Any, kept: Kept | None) -> None:
        super().__init__(module, frozenset())
        self.kept = kept
        self.types: list[TensorType] = []
        self.ops: list[Op | None] = []
        self.env: dict[Any, int] = {}

    def run(self) -> Program:
        main = self.functions.get("main")
        if main is None or not main.regions[0].blocks:
            raise PartitionError("the module has no function @main to verify")
        body = self.region(main.regions[0])
        return Program(
            name="main",
            types=tuple(self.types),
            ops=tuple(op for op in self.ops if op is not None),
            body=body,
            arguments=tuple(
                Port(f"arg{n}", v, 0) for n, v in enumerate(body.arguments)
            ),
            results=tuple(Port(f"out{n}", v, 0) for n, v in enumerate(body.results)),
        )

    def region(self, region: Any) -> Region:
        block = region.blocks[0]
        arguments = self.number(block.arguments)
        ops: list[int] = []
        results = self.block(block, ops)
        return Region(arguments, tuple(ops), results)

    def number(self, values: Any) -> tuple[int, ...]:
        first = len(self.types)
        self.types += [self.type(value.type) for value in values]
        made = tuple(range(first, len(self.types)))
        self.env.update(zip(values, made, strict=True))
        return made

    def block(self, block: Any, into: list[int]) -> tuple[int, ...]:
        env = self.env
        for op in block.operations:
            op = op.operation
            name = op.name
            if name in RETURNS:
                return tuple([env[v] for v in op.operands])
            if name == "func.call":
                self.call(op, into)
            else:
                self.plain(op, name, into)
        return ()

    def call(self, op: Any, into: list[int]) -> None:
        """A function that is kept whole is one op; others are inlined."""
        operands = tuple([self.env[v] for v in op.operands])
        given = tuple([self.types[v] for v in operands])
        made = tuple([self.type(v.type) for v in op.results])
        symbol = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        attrs = self.kept(symbol, given, made) if self.kept is not None else None
        if attrs is None:
            self.inline(op, into)
            return
        into.append(len(self.ops))
        signature = Signature.of("stablehlo.custom_call", attrs, given, made)
        results = self.number(op.results)
        location = self.locations.read(op.location)
        self.ops.append(Op(signature, operands, results, location))

    def inline(self, op: Any, into: list[int]) -> None:
        block = self.callee(op, "callee").regions[0].blocks[0]
        given = [self.env[v] for v in op.operands]
        self.env.update(zip(block.arguments, given, strict=True))
        results = self.block(block, into)
        self.env.update(zip(op.results, results, strict=True))

    def attrs_but_channels(self, op: Any) -> dict[str, str]:
        """All attributes, any channel being the first."""
        found = self.attrs(op)
        if CHANNEL in found:
            found[CHANNEL] = one_channel(found[CHANNEL])
        return found

    def plain(self, op: Any, name: str, into: list[int]) -> None:
        index = len(self.ops)
        into.append(index)
        self.ops.append(None)
        operands = tuple([self.env[v] for v in op.operands])
        control = name in _CONTROL
        regions = tuple(map(self.region, op.regions)) if control else ()
        closed = not control and (len(op.regions) or CALLED in op.attributes)
        lambdas = self.lambdas(op, name) if closed else ()
        results = self.number(op.results)
        types = self.types
        signature = Signature.of(
            name,
            self.attrs_but_channels(op),
            tuple([types[v] for v in operands]),
            tuple([types[v] for v in results]),
            lambdas,
        )
        location = self.locations.read(op.location)
        self.ops[index] = Op(signature, operands, results, location, regions)
