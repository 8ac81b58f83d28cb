"""Ops that make or move data: broadcast, transpose, reshape, slice, pad, iota, …"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from partir.ir.attributes import i64_array, integer, ints
from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.rules.factor import Factor
from partir.rules.local import (
    INDEX,
    Emitter,
    Ssa,
    binary,
    constant,
    converted,
    emit_default,
    extent_start,
    selected,
    sliced_at,
    spread,
    tile_offset,
    tile_starts,
)
from partir.rules.masks import rows_between
from partir.rules.monoids import additive
from partir.rules.nest import Nest
from partir.rules.positions import is_tile, zero_outside_tile
from partir.rules.reach import Reach
from partir.rules.registry import local_attrs, local_form, rule
from partir.rules.slices import more_rows, window_of_whole, written_over


@rule("broadcast_in_dim")
def broadcast_in_dim(op: Signature) -> Iterator[Factor]:
    """``(j) -> (i, j)``: kept dimensions follow; new and stretched ones are free."""
    source = {r: o for o, r in enumerate(ints(op.attrs["broadcast_dimensions"]))}
    for dim, size in enumerate(op.results[0].shape):
        operand = source.get(dim)
        if operand is not None and op.operands[0].shape[operand] != size:
            operand = None
        yield Factor(size, (operand,), (dim,), loose=True)


@rule("broadcast")
def broadcast(op: Signature) -> Iterator[Factor]:
    """``(j) -> (i, j)``: new dimensions in front, and the rest."""
    new = len(op.results[0].shape) - len(op.operands[0].shape)
    for dim, size in enumerate(op.results[0].shape):
        yield Factor(size, (dim - new if dim >= new else None,), (dim,), loose=True)


@local_attrs("broadcast")
def broadcast_attrs(nest: Nest) -> dict[str, str]:
    """New dimensions are as large as the tile."""
    new = len(nest.result_types[0].shape) - len(nest.operand_types[0].shape)
    sizes = i64_array(nest.result_types[0].shape[:new])
    return {**nest.signature.attrs, "broadcast_sizes": sizes}


@rule("transpose")
def transpose(op: Signature) -> Iterator[Factor]:
    """``(j, i) -> (i, j)``: each result dimension follows its operand dimension."""
    for result, operand in enumerate(ints(op.attrs["permutation"])):
        yield Factor(op.results[0].shape[result], (operand,), (result,), loose=True)


@rule("reshape")
def reshape(op: Signature) -> Iterator[Factor]:
    """Dimensions are matched in groups of equal product; the major of each is tiled.

    Size-1 dimensions are skipped, so that inside a loop that takes a major dimension
    whole, the next one becomes the major.
    """
    for operand_dims, result_dims in matching_groups(
        op.operands[0].shape, op.results[0].shape
    ):
        operand, result = operand_dims[0], result_dims[0]
        size = math.gcd(op.operands[0].shape[operand], op.results[0].shape[result])
        alone = len(operand_dims) == len(result_dims) == 1
        yield Factor(size, (operand,), (result,), loose=alone)


def matching_groups(
    left: tuple[int, ...], right: tuple[int, ...]
) -> Iterator[tuple[list[int], list[int]]]:
    """Shortest runs of dimensions with equal products, size-1 dimensions left out.

    >>> list(matching_groups((2, 1, 12), (2, 3, 4)))
    [([0], [0]), ([2], [1, 2])]
    """
    if 0 in left:
        return
    lefts = [d for d, n in enumerate(left) if n != 1]
    rights = [d for d, n in enumerate(right) if n != 1]
    i = j = 0
    while i < len(lefts) and j < len(rights):
        group_left, group_right = [lefts[i]], [rights[j]]
        size_left, size_right = left[lefts[i]], right[rights[j]]
        while size_left != size_right:
            if size_left < size_right:
                i += 1
                group_left.append(lefts[i])
                size_left *= left[lefts[i]]
            else:
                j += 1
                group_right.append(rights[j])
                size_right *= right[rights[j]]
        yield group_left, group_right
        i, j = i + 1, j + 1


def split_dims(op: Signature) -> list[tuple[int, list[int]]]:
    """Operand dimensions that the op splits into several result dimensions."""
    if op.name != "reshape":
        return []
    groups = matching_groups(op.operands[0].shape, op.results[0].shape)
    return [(left[0], right) for left, right in groups if len(left) == 1 < len(right)]


@rule("constant")
def constant_rule(op: Signature) -> Iterator[Factor]:
    """``-> (i, j)``: every dimension."""
    for dim, size in enumerate(op.results[0].shape):
        yield Factor(size, (), (dim,), loose=True)


@local_form("constant")
def constant_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """One number everywhere: at the local type. Else a slice of the whole."""
    whole, local = nest.signature.results[0], nest.result_types[0]
    text = nest.signature.attrs["value"]
    if whole == local:
        return emit_default(nest, emitter, operands)
    number = text[: text.rindex(" : ")]
    if not number.startswith(("dense<[", 'dense<"')) and number.startswith("dense<"):
        attrs = {"value": f"{number} : {local.text}"}
        return emitter.op("stablehlo.constant", (), (local,), attrs)
    made = emitter.op("stablehlo.constant", (), (whole,), nest.signature.attrs)[0]
    return (slice_tile(nest, emitter, made, position=0),)


def slice_tile(nest: Nest, emitter: Emitter, whole: Ssa, position: int) -> Ssa:
    """This iteration's tile of a value that is whole."""
    local = (*nest.operand_types, *nest.result_types)[position]
    starts = tile_starts(nest, emitter, position)
    for dim, size in enumerate(whole.type.shape):
        extent = nest.extent(position, dim)
        # Without rows behind a short tile, a slice would start before it.
        last = max(extent.starts(nest.parts(extent.axes)))
        whole = more_rows(emitter, whole, dim, last + extent.length - size)
    return sliced_at(emitter, whole, starts, local.shape)


@rule("iota")
def iota(op: Signature) -> Iterator[Factor]:
    """``-> (i, j)``: every dimension; along its own, a tile starts at its offset."""
    yield from constant_rule(op)


@local_form("iota", "dynamic_iota")
def iota_form(nest: Nest, emitter: Emitter, operands: Sequence[Ssa]) -> tuple[Ssa, ...]:
    """Count from the tile's offset: in integers, which a sum does not round.

    Integers of any type may wrap around before the sum, or behind it.
    """
    attrs = {"iota_dimension": nest.attrs["iota_dimension"]}
    type_, dim = nest.result_types[0], integer(attrs["iota_dimension"])
    offset = tile_offset(nest, emitter, len(operands), dim)
    if offset is None:
        return emitter.op("stablehlo.iota", (), (type_,), attrs)
    exact = type_.dtype.startswith(("i", "ui"))
    dtype = type_.dtype if exact else offset.type.dtype
    (count,) = emitter.op("stablehlo.iota", (), (tensor(type_.shape, dtype),), attrs)
    offset = spread(emitter, converted(emitter, offset, dtype), count.type)
    return (converted(emitter, binary(emitter, "add", count, offset), type_.dtype),)


@rule("concatenate")
def concatenate(op: Signature) -> Iterator[Factor]:
    """``(i, j), (i, j) -> (i, j)``: along the joined dimension j in windows.

    What is short beside the longest is better whole than in tiles.
    """
    joined = integer(op.attrs["dimension"])
    for dim, size in enumerate(op.results[0].shape):
        if dim != joined:
            yield Factor(size, (dim,) * len(op.operands), (dim,), loose=True)
            continue
        if _IN_WINDOWS in op.attrs:
            read = ints(op.attrs[_IN_WINDOWS])
            named = tuple(dim if n in read else None for n in range(len(op.operands)))
            yield Factor(size, named, (dim,), loose=True)
            continue
        longest = max(operand.shape[dim] for operand in op.operands)
        named = tuple(
            dim if 2 * operand.shape[dim] >= longest else None
            for operand in op.operands
        )
        starts = _joints(op, dim)[:-1]
        reach = tuple(
            Reach(first=-start) if place is not None else None
            for start, place in zip(starts, named, strict=True)
        )
        yield Factor(size, named, (dim,), reach=reach, loose=True)


# Inside a loop along the joined dimension, these operands are windows of the tile's
# size; others are whole, of whatever size.
_IN_WINDOWS = "partir.in_windows"


@local_attrs("concatenate")
def concatenate_attrs(nest: Nest) -> dict[str, str]:
    """Mark what is no concatenation any more."""
    attrs = nest.signature.attrs
    dim = integer(attrs["dimension"])
    if not nest.gives[0][dim]:
        return attrs
    read = [position for position, need in enumerate(nest.needs) if need[dim]]
    return {**attrs, _IN_WINDOWS: i64_array(read)}


def _joints(op: Signature, dim: int) -> list[int]:
    """Where each operand starts in the result, and the end."""
    sizes = (operand.shape[dim] for operand in op.operands)
    return list(itertools.accumulate(sizes, initial=0))


@local_form("concatenate")
def concatenate_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """Of each operand, where the tile lies in it; short ones are written over that."""
    dim = integer(nest.signature.attrs["dimension"])
    extent = nest.extent(len(operands), dim)
    if not extent.axes:
        return emit_default(nest, emitter, operands)
    starts, parts = _joints(nest.signature, dim), nest.parts(extent.axes)
    pieces = list(zip(operands, starts, strict=False))
    long = [
        (_window(nest, emitter, position, piece, first), first)
        for position, (piece, first) in enumerate(pieces)
        if not _is_short(nest, position, dim)
    ]
    made, start = long[0][0], extent_start(emitter, extent)
    for operand, first in long[1:]:
        joint = constant(emitter, INDEX, str(first))
        end = binary(emitter, "subtract", joint, start)
        before = rows_between(emitter, operand, dim, None, end)
        made = selected(emitter, before, made, operand)
    for position, (piece, first) in enumerate(pieces):
        if _is_short(nest, position, dim):
            made = written_over(emitter, made, dim, piece, first, extent, parts)
    return (made,)


def _is_short(nest: Nest, position: int, dim: int) -> bool:
    """Whether an operand is whole, and no longer than a tile of the result."""
    rows, tile = nest.operand_types[position], nest.result_types[0]
    return not nest.needs[position][dim] and rows.shape[dim] <= tile.shape[dim]


def _window(
    nest: Nest, emitter: Emitter, position: int, operand: Ssa, first: int
) -> Ssa:
    """Of an operand that starts at `first` in the result, where the tile lies in it."""
    dim = integer(nest.signature.attrs["dimension"])
    if nest.needs[position][dim]:
        return operand
    extent = nest.extent(len(nest.operand_types), dim)
    shifted = replace(extent, first=extent.first - first)
    return window_of_whole(emitter, operand, dim, shifted, nest.parts(extent.axes))


@rule("slice", pieces=True)
def slice_rule(op: Signature) -> Iterator[Factor]:
    """``(i, v) -> (i, _) sum=v`` where one of v is taken.

    Else dimensions taken whole, or one of every few from end to end (`x[1::2]`); or
    in windows, what is cut off being left to the neighbours.
    """
    starts, strides = (ints(op.attrs[a]) for a in ("start_indices", "strides"))
    monoid = additive(op.results[0].dtype)
    for dim, size in enumerate(op.results[0].shape):
        whole = op.operands[0].shape[dim]
        if size * strides[dim] == whole and starts[dim] < strides[dim]:
            yield Factor(size, (dim,), (dim,), loose=strides[dim] == 1)
        elif size == 1:
            yield Factor(whole, (dim,), (None,), monoid)
        else:
            reach = Reach(stride=strides[dim], first=starts[dim])
            yield Factor(size, (dim,), (dim,), reach=(reach,), loose=True)


@local_attrs("slice")
def slice_attrs(nest: Nest) -> dict[str, str]:
    """What is cut off a tile is what is cut off the whole, or the tile holds it."""
    attrs = dict(nest.signature.attrs)
    starts, limits = (list(ints(attrs[f"{a}_indices"])) for a in ("start", "limit"))
    whole, local = nest.signature.operands[0].shape, nest.operand_types[0].shape
    windows = {
        dim for loop in nest.loops for dim in loop.factor.operands if loop.factor.reach
    }
    for dim, axes in enumerate(nest.needs[0]):
        if dim in windows:
            starts[dim], limits[dim] = 0, local[dim]
        elif axes and nest.gives[0][dim]:
            limits[dim] -= whole[dim] - local[dim]
        elif axes:
            starts[dim] %= local[dim]
            limits[dim] = starts[dim] + 1
    attrs["start_indices"], attrs["limit_indices"] = map(i64_array, (starts, limits))
    return attrs


@local_form("slice")
def slice_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """Take it from this tile; what is in another one is left out."""
    (made,) = emit_default(nest, emitter, operands)
    starts = ints(nest.signature.attrs["start_indices"])
    for dim, axes in enumerate(nest.needs[0]):
        if axes and not nest.gives[0][dim]:
            number = starts[dim] // nest.operand_types[0].shape[dim]
            mask = is_tile(nest, emitter, dim, number)
            made = zero_outside_tile(emitter, made, mask)
    return (made,)


@rule("pad")
def pad(op: Signature) -> Iterator[Factor]:
    """``(i, j), () -> (i, j)``: as it is without padding, else in windows.

    In tiles, too, where every element gets the same around it (gradient of `x[1::2]`).
    """
    low, high, interior = _paddings(op)
    for dim, size in enumerate(op.operands[0].shape):
        around = low[dim] + high[dim] == interior[dim]
        if around and min(low[dim], high[dim]) >= 0:
            yield Factor(size, (dim, None), (dim,), loose=not interior[dim])
            continue
        share = interior[dim] + 1
        made = op.results[0].shape[dim]
        if made % share == 0:
            reach = Reach(first=-(low[dim] // share), fill=1)
            yield Factor(
                made // share, (dim, None), (dim,), reach=(reach,), loose=share == 1
            )


@local_attrs("pad")
def pad_attrs(nest: Nest) -> dict[str, str]:
    """A window has its edges in it; what is left is the place between elements."""
    low, high, interior = map(list, _paddings(nest.signature))
    for loop in nest.loops:
        dim = loop.factor.operands[0]
        if loop.factor.reach and dim is not None:
            low[dim] %= interior[dim] + 1
            high[dim] = interior[dim] - low[dim]
    return {
        **nest.signature.attrs,
        "edge_padding_low": i64_array(low),
        "edge_padding_high": i64_array(high),
    }


def _paddings(op: Signature) -> tuple[tuple[int, ...], ...]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return tuple(ints(op.attrs[name]) for name in names)


@rule("reverse")
def reverse(op: Signature) -> Iterator[Factor]:
    """``(i) -> (i)``: along reversed dimensions, windows from the other end."""
    turned = ints(op.attrs["dimensions"])
    for dim, size in enumerate(op.operands[0].shape):
        reach = (Reach(stride=-1, first=size - 1),) if dim in turned else ()
        yield Factor(size, (dim,), (dim,), reach=reach, loose=True)
