"""Tags as ops of a module, as `partir.tag` writes them: for a program to keep them."""

from __future__ import annotations

from dataclasses import replace

from partir.ir.core import Op, Program, Region, Signature, Tag
from partir.ir.source import Location


def tags_written(program: Program) -> Program:
    """The same program, in which every tag is an op that reads its value."""
    if not program.tags:
        return program
    by_maker: dict[int | None, list[Tag]] = {}
    for tag in program.tags:
        by_maker.setdefault(program.producers.get(tag.value), []).append(tag)
    types, ops = list(program.types), list(program.ops)

    def written(tag: Tag) -> int:
        types.append(types[tag.value])
        ops.append(_op(tag, program, len(types) - 1))
        return len(ops) - 1

    def region(old: Region) -> Region:
        inside = set(old.arguments)
        given = [t for t in by_maker.get(None, ()) if t.value in inside]
        numbers = [written(tag) for tag in given]
        for number in old.ops:
            inner = tuple(map(region, ops[number].regions))
            ops[number] = ops[number]._replace(regions=inner)
            numbers += [number, *map(written, by_maker.get(number, ()))]
        return replace(old, ops=tuple(numbers))

    body = region(program.body)
    return replace(program, types=tuple(types), ops=tuple(ops), body=body)


def _op(tag: Tag, program: Program, result: int) -> Op:
    type_ = (program.types[tag.value],)
    dims = ",".join(map(str, tag.dims))
    attrs = {"partir.tag": f'"{tag.name}"', "partir.tag_dims": f'"{dims}"'}
    signature = Signature.of("stablehlo.reshape", attrs, type_, type_)
    return Op(signature, (tag.value,), (result,), Location())
