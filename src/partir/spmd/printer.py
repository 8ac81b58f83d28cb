"""The SPMD program as text, collectives by mesh axes."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.printer import attrs_text
from partir.partition.core_text import window_text
from partir.rules.nest import Tiling
from partir.spmd.program import (
    BARRIER,
    Block,
    Collective,
    Compute,
    SpmdOp,
    SpmdProgram,
    is_barrier,
)


def spmd_text(program: SpmdProgram) -> str:
    """A line per op; arguments show their tiling, collectives their names."""
    source, body = program.program, program.body
    names = {
        value: "%" + port.name.replace("/", ".")
        for value, port in zip(body.arguments, source.arguments, strict=True)
    }
    arguments = [
        f"{names[value]}: {program.types[value]}{tiling_text(tiling)}"
        for value, tiling in zip(body.arguments, program.in_tilings, strict=True)
    ]
    lines = [f"spmd @{source.name} on {program.mesh} ("]
    lines += [f"    {argument}" for argument in arguments]
    lines += [") {", *_lines(program, names, body, "  "), "}"]
    return "\n".join(lines)


def tiling_text(tiling: Tiling) -> str:
    """`` {B, _}``: axes of each dimension, nothing for a whole value."""
    if not any(tiling):
        return ""
    return f" {{{', '.join('.'.join(axes) or '_' for axes in tiling)}}}"


def _lines(
    program: SpmdProgram, names: dict[int, str], block: Block, indent: str
) -> Iterator[str]:
    def show(values: tuple[int, ...]) -> str:
        return ", ".join(names.get(v, f"%{v}") for v in values)

    ids = program.collective_ids
    for op in block.ops:
        types = ", ".join(str(program.types[v]) for v in op.results)
        left = f"{show(op.results)} = " if op.results else ""
        text = f"{indent}{left}{_head(program, op)}({show(op.operands)}) : {types}"
        name = ids.get(op.results[0]) if op.results else None
        yield f"{text}  # {name}" if name else text
        if not isinstance(op, Compute | Collective):
            for inner in op.blocks:
                yield f"{indent}  ({show(inner.arguments)}) {{"
                yield from _lines(program, names, inner, indent + "    ")
                yield f"{indent}  }}"
    yield f"{indent}return {show(block.results)}"


def _head(program: SpmdProgram, op: SpmdOp) -> str:
    if is_barrier(op):
        return BARRIER.removeprefix("stablehlo.")
    if not isinstance(op, Collective):
        source = program.program.ops[op.node].signature
        signature = op.nest.signature if isinstance(op, Compute) else source
        return f"{signature.name}{attrs_text(signature.attrs)}"
    axes = "{" + ",".join(op.axes) + "}"
    if op.kind == "all_to_all":
        return f"all_to_all {op.dim}->{op.to_dim} {axes}"
    if op.kind == "collective_permute":
        return f"collective_permute {op.dim} {axes}->{{{','.join(op.order)}}}"
    if op.window is not None:
        shown = window_text(op.window.extent).replace("%r", "%")
        return f"{op.kind} {op.dim} {axes} [{shown}]"
    where = f" {op.dim}" if op.dim >= 0 else ""
    monoid = f" {op.monoid}" if op.monoid else ""
    return f"{op.kind}{monoid}{where} {axes}"
