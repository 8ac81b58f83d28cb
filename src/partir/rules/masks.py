"""What must not count: operands that count once, and what lies outside of a value.

Behind the end of a short tile, and where a window reaches over the edges of a value,
operands hold garbage. Ops that keep positions apart pass it on; it is masked where
positions meet.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.types import tensor
from partir.rules.factor import JOIN
from partir.rules.identities import BESIDE, ONCE, SHORT, cites
from partir.rules.local import (
    INDEX,
    Emitter,
    Ssa,
    binary,
    compared,
    constant,
    extent_start,
    selected,
    spread,
)
from partir.rules.monoids import is_identity, neutral
from partir.rules.nest import Loop, Nest
from partir.rules.reach import Reach, tile_sizes


@cites(ONCE)
def once_operands(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa], splats: Sequence[str | None]
) -> list[Ssa]:
    """Operands with those marked `once` masked, unless known to be the identity."""
    made = list(operands)
    for loop in nest.loops:
        for position in loop.factor.once:
            assert loop.factor.reduce is not None
            type_ = nest.signature.operands[position]
            if not is_identity(loop.factor.reduce, type_, splats[position]):
                made[position] = _masked(loop, emitter, made[position])
    return made


def _masked(loop: Loop, emitter: Emitter, operand: Ssa) -> Ssa:
    """`operand` in the first iteration, the identity in the others."""
    assert loop.factor.reduce is not None
    zero = constant(emitter, INDEX, "0")
    first = compared(emitter, emitter.index(loop.axis), "EQ", zero)
    other = constant(emitter, operand.type, neutral(loop.factor.reduce, operand.type))
    return selected(emitter, first, operand, other)


def has_garbage(nest: Nest) -> bool:
    """Whether an iteration may read garbage that would count."""
    known: bool | None = nest.cache.get("has garbage")
    if known is None:
        known = bool(_edges(nest)) or any(map(_short, _chains(nest)))
        nest.cache["has garbage"] = known
    return known


@cites(BESIDE, SHORT)
def without_garbage(nest: Nest, emitter: Emitter, operands: Sequence[Ssa]) -> list[Ssa]:
    """Operands with what does not exist replaced by what does not count."""
    made = list(operands)
    for position, dim, fill in _edges(nest):
        made[position] = _filled(nest, emitter, made, position, dim, fill)
    for chain in filter(_short, _chains(nest)):
        axes, parts = zip(*((loop.axis, loop.size) for loop in chain), strict=True)
        valid = valid_rows(emitter, chain[0].factor.size, axes, parts)
        for position, along in enumerate(chain[-1].factor.operands):
            if along is not None:
                made[position] = _ended(
                    emitter, made[position], along, chain[-1], position, valid
                )
    return made


# Windows over the edges of a value


def _edges(nest: Nest) -> list[tuple[int, int, int | str]]:
    """Operands and dimensions that are read over an edge, and what is there."""
    found = []
    for position, type_ in enumerate(nest.signature.operands):
        for dim, fill in _fills(nest, position).items():
            extent = nest.extent(position, dim)
            starts = extent.starts(nest.parts(extent.axes))
            end = max(starts) + extent.length
            if min(starts) < 0 or end > type_.shape[dim]:
                found.append((position, dim, fill))
    return found


def _fills(nest: Nest, position: int) -> dict[int, int | str]:
    """What the outermost loop along each dimension reads outside of the value."""
    found: dict[int, int | str | None] = {}
    for loop in nest.loops:
        reach, dim = loop.factor.reach_of(position), loop.factor.operands[position]
        if dim is not None:
            found.setdefault(dim, reach.fill if reach is not None else None)
    return {dim: fill for dim, fill in found.items() if fill is not None}


def _filled(
    nest: Nest,
    emitter: Emitter,
    operands: Sequence[Ssa],
    position: int,
    dim: int,
    fill: int | str,
) -> Ssa:
    value = operands[position]
    start = extent_start(emitter, nest.extent(position, dim))
    whole = constant(emitter, INDEX, str(nest.signature.operands[position].shape[dim]))
    first = binary(emitter, "subtract", constant(emitter, INDEX, "0"), start)
    inside = rows_between(
        emitter, value, dim, first, binary(emitter, "subtract", whole, start)
    )
    if isinstance(fill, str):
        other = constant(emitter, value.type, fill)
    else:
        other = spread(emitter, operands[fill], value.type)
    return selected(emitter, inside, value, other)


def rows_between(
    emitter: Emitter, like: Ssa, dim: int, first: Ssa | None, end: Ssa | None
) -> Ssa:
    """A mask in the shape of a value: its rows from `first` on, and before `end`."""
    type_ = tensor((like.type.shape[dim],), "i32")
    attrs = {"iota_dimension": "0 : i64"}
    (counter,) = emitter.op("stablehlo.iota", (), (type_,), attrs)
    masks = [
        compared(emitter, counter, direction, spread(emitter, bound, type_))
        for direction, bound in (("GE", first), ("LT", end))
        if bound is not None
    ]
    mask = masks[0] if len(masks) == 1 else binary(emitter, "and", *masks)
    return spread(emitter, mask, tensor(like.type.shape, "i1"), (dim,))


# Short tiles in reductions


def _chains(nest: Nest) -> list[list[Loop]]:
    """Loops over one reduction, outermost first."""
    chains: list[list[Loop]] = []
    for loop in nest.loops:
        if loop.factor.reduce in (None, JOIN):
            continue
        for chain in chains:
            if chain[0].factor.runs_like(loop.factor):
                chain.append(loop)
                break
        else:
            chains.append([loop])
    return chains


def _short(chain: Sequence[Loop]) -> bool:
    return any(loop.factor.size % loop.size for loop in chain)


def existing_rows(nest: Nest, emitter: Emitter, like: Ssa) -> Ssa | None:
    """A mask of an operand's rows that are there, by the loops that join tiles.

    None if all are. A dimension of one row has no loops behind it.
    """
    loops = nest.joins
    if not _short(loops):
        return None
    factor = loops[-1].factor
    chain = [loop for loop in loops if loop.factor.operands == factor.operands]
    axes, parts = zip(*((loop.axis, loop.size) for loop in chain), strict=True)
    valid = valid_rows(emitter, chain[0].factor.size, axes, parts)
    dim = factor.operands[0]
    assert dim is not None
    return rows_between(emitter, like, dim, None, valid)


def valid_rows(
    emitter: Emitter, size: int, axes: Sequence[str], parts: Sequence[int]
) -> Ssa:
    """How much of this iteration's tile of a dimension is there."""
    zero, valid = (constant(emitter, INDEX, str(number)) for number in (0, size))
    for axis, tile in zip(axes, tile_sizes(size, parts), strict=True):
        rows = constant(emitter, INDEX, str(tile))
        before = binary(emitter, "multiply", emitter.index(axis), rows)
        left = binary(emitter, "subtract", valid, before)
        (valid,) = emitter.op("stablehlo.clamp", (zero, left, rows), (INDEX,))
    return valid


def _ended(
    emitter: Emitter, value: Ssa, dim: int, loop: Loop, position: int, valid: Ssa
) -> Ssa:
    """A value with the identity behind the rows that indices which exist read."""
    factor = loop.factor
    assert factor.reduce is not None
    count = -(-factor.size // loop.size)
    reach = factor.reach_of(position)
    share = Reach() if value.type.shape[dim] == count else reach
    if share is None:
        rows = value.type.shape[dim] // count
        share = Reach(stride=rows, length=rows)
    step = constant(emitter, INDEX, str(abs(share.stride)))
    more = constant(emitter, INDEX, str(share.length - abs(share.stride)))
    end = binary(emitter, "multiply", valid, step)
    end = binary(emitter, "add", end, more)
    none = compared(emitter, valid, "EQ", constant(emitter, INDEX, "0"))
    end = selected(emitter, none, constant(emitter, INDEX, "0"), end)
    inside = rows_between(emitter, value, dim, None, end)
    fill = reach.fill if reach is not None and isinstance(reach.fill, str) else None
    other = fill or neutral(factor.reduce, value.type)
    return selected(emitter, inside, value, constant(emitter, value.type, other))
