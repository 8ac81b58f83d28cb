"""Values that go through a collective side by side: each goes through it by itself.

A device-local program may put small values one behind the other, send them in one
collective, and cut what comes out at the same places. A collective does the same at all
places along any other dimension than the one that it gathers or scatters along, and a
sum does so along all. So each of the cuts is what the collective makes of one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from partir.ir.attributes import integer, ints
from partir.ir.core import Op, Program, Region, Signature
from partir.ir.filled import literal_of

# The dimension that a collective moves along, by its attribute; sums have none.
_ALONG = {
    "stablehlo.all_reduce": None,
    "stablehlo.all_gather": "all_gather_dim",
    "stablehlo.reduce_scatter": "scatter_dimension",
}
_BARRIER = "stablehlo.optimization_barrier"


class Bundle(NamedTuple):
    """A collective of values side by side, by op number, and what is cut out of it."""

    joined: int
    collective: int
    cuts: Mapping[int, int]  # numbers of slices, and the value that each is made of


def unbundled(program: Program) -> Program:
    """The program with a collective for each value; the same if there is no bundle."""
    found = list(_bundles(program))
    if not found:
        return program
    ops, dead = list(program.ops), set[int]()
    for bundle in found:
        collective = ops[bundle.collective]
        for number, value in bundle.cuts.items():
            ops[number] = _alone(program, collective, ops[number], value)
        if {*bundle.cuts} >= {*program.uses.get(collective.results[0], ())}:
            dead.add(bundle.collective)
            if program.uses[collective.operands[0]] == (bundle.collective,):
                dead.add(bundle.joined)
    ops = [_without(op, dead) if op.regions else op for op in ops]
    return replace(program, ops=tuple(ops), body=_stripped(program.body, dead))


def _alone(program: Program, collective: Op, cut: Op, value: int) -> Op:
    """A collective of one value in place of a cut."""
    kind, attrs = collective.kind, collective.signature.attrs
    types, lambdas = (program.types[value],), collective.signature.lambdas
    signature = Signature.of(kind, attrs, types, cut.signature.results, lambdas)
    return Op(signature, (value,), cut.results, cut.location)


def _bundles(program: Program) -> Iterator[Bundle]:
    """Collectives of values side by side that are cut apart in the same block.

    What is read as a block's result, too, is left as it is.
    """
    regions = [program.body, *(r for op in program.ops for r in op.regions)]
    for region in regions:
        here, results = {*region.ops}, {*region.results}
        for number in region.ops:
            if program.ops[number].kind in _ALONG:
                bundle = _bundle(program, number, here)
                made = program.ops[number].results
                if bundle is not None and results.isdisjoint(made):
                    yield bundle


def _bundle(program: Program, number: int, here: set[int]) -> Bundle | None:
    op = program.ops[number]
    maker = program.producers.get(op.operands[0])
    if len(op.operands) != 1 or maker is None or maker not in here:
        return None
    joined = program.ops[maker]
    if joined.kind != "stablehlo.concatenate":
        return None
    dim, along = integer(joined.signature.attrs["dimension"]), _ALONG[op.kind]
    if along is not None and integer(op.signature.attrs[along]) == dim:
        return None
    value_at, start = dict[tuple[int, int], int](), 0
    for value in joined.operands:
        end = start + program.types[value].shape[dim]
        value_at[start, end] = value
        start = end
    cuts = {
        user: value_at[place]
        for user in program.uses.get(op.results[0], ())
        if user in here and (place := _cut(program, program.ops[user], dim)) in value_at
    }
    return Bundle(maker, number, cuts) if cuts else None


def _cut(program: Program, op: Op, dim: int) -> tuple[int, int] | None:
    """Where a slice of all other dimensions begins and ends, if that is known."""
    window = _window(program, op)
    if window is None:
        return None
    whole = op.signature.operands[0].shape
    for other, (size, place) in enumerate(zip(whole, window, strict=True)):
        if other != dim and place != (0, size):
            return None
    return window[dim]


def _window(program: Program, op: Op) -> list[tuple[int, int]] | None:
    """Where a slice begins and ends along each dimension."""
    attrs = op.signature.attrs
    if op.kind == "stablehlo.slice" and {*ints(attrs["strides"])} == {1}:
        starts, ends = ints(attrs["start_indices"]), ints(attrs["limit_indices"])
        return [*zip(starts, ends, strict=True)]
    if op.kind == "stablehlo.dynamic_slice":
        found = [_number(program, value) for value in op.operands[1:]]
        sizes = ints(attrs["slice_sizes"])
        known = [start for start in found if start is not None]
        if len(known) == len(found):
            return [(n, n + size) for n, size in zip(known, sizes, strict=True)]
    return None


def _number(program: Program, value: int) -> int | None:
    """What a constant is, be it behind barriers."""
    maker = program.producers.get(value)
    while maker is not None and program.ops[maker].kind == _BARRIER:
        op = program.ops[maker]
        value = op.operands[op.results.index(value)]
        maker = program.producers.get(value)
    literal = None if maker is None else literal_of(program.ops[maker].signature)
    return None if literal is None else int(literal)


def _without(op: Op, dead: set[int]) -> Op:
    return op._replace(regions=tuple(_stripped(r, dead) for r in op.regions))


def _stripped(region: Region, dead: set[int]) -> Region:
    ops = tuple(number for number in region.ops if number not in dead)
    return Region(region.arguments, ops, region.results)
