"""The smallest part of a device-local program that shows a difference, as a module.

Its arguments are the last values that are what the source computes, or a part of it;
what was made of them since is printed, up to the op that the source has not. The module
parses and runs by itself: keep it as a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from partir.ir.core import Lambda, Op, Program, Region
from partir.ir.types import TensorType
from partir.verify.failures.blame import value_text
from partir.verify.layouts.layout import View
from partir.verify.machine.machine import Machine

_MOST = 40  # ops in an excerpt


def excerpt(machine: Machine, value: int) -> str:
    """The ops between values that are right and this one."""
    ops, arguments = _between(machine, value)
    program = machine.program
    names = {v: f"%arg{n}" for n, v in enumerate(arguments)}
    notes = [
        f"  // {names[v]}: {value_text(machine, machine.env.get(v))}" for v in arguments
    ]
    head = ", ".join(f"{names[v]}: {program.types[v].text}" for v in arguments)
    lines = _lines(program, ops, names, "  ")
    type_ = program.types[value].text
    return "\n".join(
        [
            "module {",
            f"  func.func @main({head}) -> {type_} {{",
            *("  " + note for note in notes),
            *("  " + line for line in lines),
            f'    "func.return"({names[value]}) : ({type_}) -> ()',
            "  }",
            "}",
        ]
    )


def program_text(program: Program) -> str:
    """A whole device-local program as a module, in generic form."""
    body = program.body
    names = {v: f"%arg{n}" for n, v in enumerate(body.arguments)}
    head = ", ".join(f"{names[v]}: {program.types[v].text}" for v in body.arguments)
    lines = _lines(program, body.ops, names, "  ")
    types = ", ".join(program.types[v].text for v in body.results)
    reads = ", ".join(names[v] for v in body.results)
    return "\n".join(
        [
            f"module {{\n  func.func @main({head}) -> ({types}) {{",
            *("  " + line for line in lines),
            f'    "func.return"({reads}) : ({types}) -> ()\n  }}\n}}',
        ]
    )


def _between(machine: Machine, value: int) -> tuple[list[int], list[int]]:
    """Ops that made a value out of right ones, in order, and these."""
    program, ops = machine.program, set[int]()
    arguments: dict[int, None] = {}
    left = [value]
    while left:
        here = left.pop()
        op = program.producers.get(here)
        if here != value and (_right(machine, here) or op is None or len(ops) >= _MOST):
            arguments[here] = None
        elif op is not None and op not in ops:
            ops.add(op)
            left += [*program.ops[op].operands, *_captured(program, program.ops[op])]
        elif op is None:
            arguments[here] = None
    order = [index for index in _order(program, program.body) if index in ops]
    return order, [v for v in arguments if program.producers.get(v) not in ops]


def _order(program: Program, region: Region) -> Iterator[int]:
    """Ops in the order in which they run, those of regions before their op."""
    for index in region.ops:
        for inner in program.ops[index].regions:
            yield from _order(program, inner)
        yield index


def _right(machine: Machine, value: int) -> bool:
    known = machine.env.get(value)
    return isinstance(known, View) and machine.classes.in_source(known.node)


def _captured(program: Program, op: Op) -> list[int]:
    """Values that an op's regions read from outside."""
    inside: set[int] = set()
    read: list[int] = []

    def walk(region: Region) -> None:
        inside.update(region.arguments)
        for index in region.ops:
            inner = program.ops[index]
            inside.update(inner.results)
            read.extend(inner.operands)
            for nested in inner.regions:
                walk(nested)
        read.extend(region.results)

    for region in op.regions:
        walk(region)
    return [v for v in dict.fromkeys(read) if v not in inside]


def _lines(
    program: Program, ops: Iterable[int], names: dict[int, str], indent: str
) -> list[str]:
    made = []
    for index in ops:
        op = program.ops[index]
        left = _named(op.results, names)
        signature = op.signature
        regions = [lambda_text(found) for found in signature.lambdas]
        regions += [_region(program, region, names, indent) for region in op.regions]
        body = f" ({', '.join(regions)})" if regions else ""
        reads = ", ".join(names[v] for v in op.operands)
        tail = _tail(signature.attrs, signature.operands, signature.results)
        made.append(f'{indent}{left}"{op.kind}"({reads}){body}{tail}')
    return made


def _named(results: Sequence[int], names: dict[int, str], letter: str = "v") -> str:
    if not results:
        return ""
    base = f"%{letter}{results[0]}"
    for number, value in enumerate(results):
        names[value] = base if len(results) == 1 else f"{base}#{number}"
    return f"{base} = " if len(results) == 1 else f"{base}:{len(results)} = "


def _tail(
    attrs: Mapping[str, str],
    operands: Sequence[TensorType],
    results: Sequence[TensorType],
) -> str:
    said = ", ".join(f"{_attribute(name)} = {text}" for name, text in attrs.items())
    ins = ", ".join(type_.text for type_ in operands)
    outs = ", ".join(type_.text for type_ in results)
    return f"{f' {{{said}}}' if said else ''} : ({ins}) -> ({outs})"


def _attribute(name: str) -> str:
    plain = name.replace("_", "a").replace(".", "a").isalnum()
    return name if plain else f'"{name}"'


def _region(
    program: Program, region: Region, names: dict[int, str], indent: str
) -> str:
    for value in region.arguments:
        names[value] = f"%v{value}"
    head = ", ".join(f"{names[v]}: {program.types[v].text}" for v in region.arguments)
    lines = _lines(program, region.ops, names, indent + "  ")
    reads = ", ".join(names[v] for v in region.results)
    types = ", ".join(program.types[v].text for v in region.results)
    lines.append(f'{indent}  "stablehlo.return"({reads}) : ({types}) -> ()')
    block = f"^bb0({head}):" if head else ""
    return "\n".join([f"{{ {block}".rstrip(), *lines, f"{indent}}}"])


def lambda_text(function: Lambda) -> str:
    """A reducer or comparator in one line."""
    names = {v: f"%l{v}" for v in range(len(function.types))}
    head = ", ".join(
        f"{names[v]}: {function.types[v].text}" for v in function.arguments
    )
    parts = []
    for op in function.ops:
        left = _named(op.results, names, "l")
        reads = ", ".join(names[v] for v in op.operands)
        signature = op.signature
        tail = _tail(signature.attrs, signature.operands, signature.results)
        parts.append(f'{left}"{op.kind}"({reads}){tail}')
    reads = ", ".join(names[v] for v in function.results)
    types = ", ".join(function.types[v].text for v in function.results)
    parts.append(f'"stablehlo.return"({reads}) : ({types}) -> ()')
    return f"{{ ^bb0({head}): " + " ".join(parts) + " }"
