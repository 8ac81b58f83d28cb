"""Values that go through a collective side by side: each goes through it by itself.

A device-local program may put small values one behind the other, send them in one
collective, and cut what comes out at the same places. A collective does the same at all
places along any other dimension than the one that it gathers or scatters along, and a
sum does so along all. So each of the cuts is what the collective makes of one value.

An author who writes a shard_map may do the same by hand. The source then has it side by
side, and so has to be left what devices do. Exported bundles are told from those by the
barrier that hides where the cuts begin. To leave one as it is can't be wrong.
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
JOIN = "stablehlo.concatenate"
_MANUAL = "sdy.manual_computation"


class Bundle(NamedTuple):
    """A collective of values side by side, by op number, and what is cut out of it."""

    joined: int
    collective: int
    cuts: Mapping[int, int]  # numbers of slices, and the value that each is made of


def unbundled(program: Program, source: Program) -> Program:
    """The program with a collective for each value; the same if there is no bundle.

    If the source has collectives of its own, only what is cut at hidden places.
    """
    uses = program.once(_uses)
    if not uses:
        return program
    hidden = any(one.kind == _MANUAL for one in {op.signature for op in source.ops})
    regions = [program.body, *(r for op in program.ops for r in op.regions)]
    found = [one for region in regions for one in _bundles(program, region, hidden)]
    if not found:
        return program
    ops, dead = list(program.ops), set[int]()
    returned = {value for region in regions for value in region.results}
    for bundle in found:
        collective = ops[bundle.collective]
        for number, value in bundle.cuts.items():
            ops[number] = _alone(program, collective, ops[number], value)
        made, joined = collective.results[0], collective.operands[0]
        if made not in returned and {*uses[made]} <= {*bundle.cuts}:
            dead.add(bundle.collective)
            if joined not in returned and len(uses[joined]) == 1:
                dead.add(bundle.joined)
    ops = [without(op, dead) if op.regions else op for op in ops]
    return replace(program, ops=tuple(ops), body=stripped(program.body, dead))


def _uses(program: Program) -> dict[int, list[int]]:
    """Ops that read what collectives make of values side by side, and these values."""
    found: dict[int, list[int]] = {}
    signatures = {op.signature for op in program.ops}
    joins = {one for one in signatures if one.kind == JOIN}
    moves = {s for s in signatures if s.kind in _ALONG and len(s.operands) == 1}
    if not joins or not moves:
        return found
    joined = {op.results[0] for op in program.ops if op.signature in joins}
    for op in program.ops:
        if op.signature in moves and op.operands[0] in joined:
            found |= {op.operands[0]: [], op.results[0]: []}
    for number, op in enumerate(program.ops if found else ()):
        for value in op.operands:
            if value in found and number not in found[value][-1:]:
                found[value].append(number)
    return found


def _alone(program: Program, collective: Op, cut: Op, value: int) -> Op:
    """A collective of one value in place of a cut."""
    kind, attrs = collective.kind, collective.signature.attrs
    types, lambdas = (program.types[value],), collective.signature.lambdas
    signature = Signature.of(kind, attrs, types, cut.signature.results, lambdas)
    return Op(signature, (value,), cut.results, cut.location)


def _bundles(program: Program, region: Region, hidden: bool) -> Iterator[Bundle]:
    """Collectives of values side by side that are cut apart in the same block."""
    here, uses = {*region.ops}, program.once(_uses)
    makers = {program.producers[value] for value in uses}
    for number in sorted(makers & here):
        op = program.ops[number]
        if op.signature.kind in _ALONG:
            bundle = _bundle(program, number, here, hidden)
            if bundle is not None:
                yield bundle


def _bundle(
    program: Program, number: int, here: set[int], hidden: bool
) -> Bundle | None:
    op = program.ops[number]
    maker = program.producers[op.operands[0]]
    if maker not in here:
        return None
    joined = program.ops[maker]
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
        for user in program.once(_uses)[op.results[0]]
        if user in here
        and (place := cut_place(program, program.ops[user], dim)) in value_at
        and not (hidden and not is_hidden(program, program.ops[user], dim))
    }
    return Bundle(maker, number, cuts) if cuts else None


def cut_place(program: Program, op: Op, dim: int) -> tuple[int, int] | None:
    """Where a slice of all other dimensions begins and ends, if that is known."""
    window = _window(program, op)
    if window is None:
        return None
    whole = op.signature.operands[0].shape
    for other, (size, place) in enumerate(zip(whole, window, strict=True)):
        if other != dim and place != (0, size):
            return None
    return window[dim]


def is_hidden(program: Program, op: Op, dim: int) -> bool:
    """Whether a barrier stands before the place where a slice begins."""
    if op.kind != "stablehlo.dynamic_slice":
        return False
    maker = program.producers.get(op.operands[1 + dim])
    return maker is not None and program.ops[maker].kind == _BARRIER


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


def without(op: Op, dead: set[int]) -> Op:
    """An op without ops that nobody reads, by number, in its regions."""
    return op._replace(regions=tuple(stripped(r, dead) for r in op.regions))


def stripped(region: Region, dead: set[int]) -> Region:
    """A region without these."""
    ops = tuple(number for number in region.ops if number not in dead)
    return Region(region.arguments, ops, region.results)
