"""A device-local module read from its lines, MLIR asked once per form of line.

Names are looked up here; what a form means, MLIR says, which parses and checks a module
with one function for each. Where a name is not known or used twice, or types are others
than the form's, nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from partir.errors import PartitionError
from partir.frontend.lines import ModuleLines, lines_of
from partir.frontend.parsing import parse_module
from partir.frontend.reader import Reader
from partir.ir.attributes import CALLED
from partir.ir.core import Op, Port, Program, Region, Signature
from partir.ir.source import Location
from partir.ir.types import TensorType

_SOMETHING = '"stablehlo.constant"() {value = dense<0> : tensor<i1>} : () -> tensor<i1>'
_NAMELESS = "-"  # what MLIR calls a text without a file
_op = partial(tuple.__new__, Op)  # what `Op` does, at half the price


def read_lines(text: str) -> Program | None:
    """The program, if the text is written as it is exported, and in order."""
    lines = lines_of(text)
    if lines is None:
        return None
    try:
        return _program(lines, _Meanings(lines))
    except (PartitionError, LookupError, ValueError):
        return None


class _Meanings(Reader):
    """What MLIR says of each form, type and place."""

    def __init__(self, lines: ModuleLines) -> None:
        places = tuple(dict.fromkeys([place for _, place in lines.placed]))
        module = parse_module(_module_of_forms(lines, places))
        super().__init__(module, frozenset())
        if len(module.body.operations) != len(lines.forms) + 2:
            raise ValueError("forms that are not one function each")
        self.module = module  # lives as long as what is read of it
        self.ports = [self.type(v.type) for v in self._block("ports").arguments]
        self.signatures = [
            self._signature(self._block(f"form{n}")) for n in range(len(lines.forms))
        ]
        held = self._block("places").operations
        self.places = {
            place: self.locations.read(op.location)
            for place, op in zip(places, held, strict=False)
            if place
        }

    def _block(self, name: str) -> Any:
        return self.functions[name].regions[0].blocks[0]

    def _signature(self, block: Any) -> Signature:
        made, _ = block.operations  # one, and the return
        op = made.operation
        if CALLED in op.attributes:
            raise ValueError("a function that is called is not among the forms")
        return Signature.of(
            op.name,
            self.attrs(op),
            tuple([self.type(v.type) for v in op.operands]),
            tuple([self.type(v.type) for v in op.results]),
            self.lambdas(op, op.name) if len(op.regions) else (),
        )


def _module_of_forms(lines: ModuleLines, places: Sequence[str]) -> str:
    types = [*(type_ for _, type_ in lines.arguments), *lines.result_types]
    ports = ", ".join(f"%port{n}: {type_}" for n, type_ in enumerate(types))
    held = [f"%at{n} = {_SOMETHING}{place}" for n, place in enumerate(places)]
    end = '"func.return"() : () -> ()\n}'
    parts = [
        *lines.aliases,
        "module {",
        f"func.func @ports({ports}) {{\n{end}",
        "\n".join(["func.func @places() {", *held, end]),
        *(form.function(f"form{n}") for n, form in enumerate(lines.forms)),
        "}",
    ]
    return "\n".join(parts)


def _program(lines: ModuleLines, meanings: _Meanings) -> Program:
    """Values numbered in the order in which they are made."""
    count = len(lines.arguments)
    named = {name: n for n, (name, _) in enumerate(lines.arguments)}
    types = meanings.ports[:count]
    ops = tuple(_ops(lines, meanings, named, types))
    results = tuple([named[name] for name in lines.results])
    if [types[v] for v in results] != meanings.ports[count:]:
        raise ValueError("results of other types than the function's")
    if len(named) != len(types):
        raise ValueError("a name that is used twice")
    return Program(
        name="main",
        types=tuple(types),
        ops=ops,
        body=Region(tuple(range(count)), tuple(range(len(ops))), results),
        arguments=tuple(Port(f"arg{n}", n, 0) for n in range(count)),
        results=tuple(Port(f"out{n}", v, 0) for n, v in enumerate(results)),
    )


def _ops(
    lines: ModuleLines,
    meanings: _Meanings,
    named: dict[str, int],
    types: list[TensorType],
) -> Iterator[Op]:
    """The ops in order; what they make gets its name, number and type."""
    places, signatures = meanings.places, meanings.signatures
    placed = [(signatures[form], places.get(place)) for form, place in lines.placed]
    for name, operands, number, line in lines.ops:
        signature, where = placed[number]
        read = tuple([named[one] for one in operands.split(", ")]) if operands else ()
        if tuple([types[v] for v in read]) != signature.operands:
            raise ValueError("operands of other types than the op's")
        first, made = len(types), signature.results
        types += made
        if len(made) == 1:
            named[name] = first
            results: tuple[int, ...] = (first,)
        else:
            results = tuple(range(first, len(types)))
            named.update((f"{name}#{n}", v) for n, v in enumerate(results))
        where = where or Location("", _NAMELESS, line)
        yield _op((signature, read, results, where, ()))
