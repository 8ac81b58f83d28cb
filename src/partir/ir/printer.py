"""The one textual form of ops and values that texts for people share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from partir.ir.core import Program, Region

_LONG = 120


def attrs_text(attrs: Mapping[str, str]) -> str:
    """Attributes in braces, long ones cut."""
    parts = [
        f"{name} = {text if len(text) <= _LONG else text[:_LONG] + '…'}"
        for name, text in sorted(attrs.items())
    ]
    return f" {{{', '.join(parts)}}}" if parts else ""


class Names:
    """Printed names of a program's values."""

    def __init__(self, program: Program) -> None:
        """Name the arguments once; other values by number."""
        self._arguments = {
            port.value: "%" + re.sub(r"[^\w$.-]", ".", port.name)
            for port in program.arguments
        }

    def __getitem__(self, value: int) -> str:
        """Printed name of a value."""
        return self._arguments.get(value) or f"%{value}"

    def many(self, values: tuple[int, ...]) -> str:
        """Several, with commas."""
        return ", ".join(self[v] for v in values)


def program_text(program: Program) -> str:
    """The source program: a line per op, regions indented."""
    names = Names(program)
    arguments = ", ".join(
        f"{names[p.value]}: {program.types[p.value]}" for p in program.arguments
    )
    lines = [f"func @{program.name}({arguments}) {{"]
    lines += _region_lines(program, names, program.body, "  ")
    return "\n".join([*lines, "}"])


def _region_lines(
    program: Program, names: Names, region: Region, indent: str
) -> Iterator[str]:
    for index in region.ops:
        op = program.ops[index]
        results = f"{names.many(op.results)} = " if op.results else ""
        types = ", ".join(str(program.types[v]) for v in op.results)
        head = f"{op.signature.name}({names.many(op.operands)})"
        head += attrs_text(op.signature.attrs)
        yield f"{indent}{results}{head} : {types}"
        for inner in op.regions:
            yield f"{indent}  ({names.many(inner.arguments)}) {{"
            yield from _region_lines(program, names, inner, indent + "    ")
            yield f"{indent}  }}"
    yield f"{indent}return {names.many(region.results)}"
