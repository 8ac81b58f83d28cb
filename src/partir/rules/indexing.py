"""Dynamic slices: caches, stacked layers of a scan, random crops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partir.ir.attributes import i64_array
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import (
    Emitter,
    Ssa,
    binary,
    constant,
    emit_default,
    padded,
    selected,
    sliced,
    sliced_at,
)
from partir.rules.lookup import marked, marks, tiled_dims
from partir.rules.monoids import additive, anything
from partir.rules.nest import Nest
from partir.rules.positions import (
    all_of,
    clamped,
    located,
    shifted,
    signed,
    zero_outside_tile,
)
from partir.rules.registry import local_attrs, local_form, rule


@rule("dynamic_slice", pieces=True)
def dynamic_slice(op: Signature) -> Iterator[Factor]:
    """``(v, d), (), () -> (_, d) sum=v`` where one of v and all of d are taken.

    A dimension that is taken whole can only start at zero.
    """
    starts = (None,) * (len(op.operands) - 1)
    monoid = additive(op.results[0].dtype)
    for dim, size in enumerate(op.operands[0].shape):
        if op.results[0].shape[dim] == size:
            yield Factor(size, (dim, *starts), (dim,))
        elif op.results[0].shape[dim] == 1:
            yield Factor(size, (dim, *starts), (None,), monoid)


@local_attrs("dynamic_slice")
def dynamic_slice_attrs(nest: Nest) -> dict[str, str]:
    """Sizes are those of the local result."""
    sizes = i64_array(nest.result_types[0].shape)
    return {**nest.signature.attrs, "slice_sizes": sizes}


@local_form("dynamic_slice")
def dynamic_slice_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """Take it from this tile; what is in another one is left out."""
    operand, *starts = operands
    found = _local_starts(nest, emitter, starts, nest.signature.results[0].shape)
    if found is None:
        return emit_default(nest, emitter, operands)
    starts, mask = found
    (made,) = emit_default(nest, emitter, (operand, *starts))
    return (zero_outside_tile(emitter, made, mask),)


def takes_a_range(nest: Nest) -> bool:
    """Whether an op takes several neighbours from a place that it brings into range."""
    ranged = nest.signature.kind == "stablehlo.dynamic_slice"
    return ranged and max(nest.result_types[0].shape, default=1) > 1


def in_range(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa], splats: Sequence[str | None]
) -> list[Ssa]:
    """Operands of an op that takes a range, its starts brought into range beforehand.

    The op does so too. But XLA joins it to a slice of its result, and then asks only
    that the sum of both starts be in range.
    """
    operand, *starts = operands
    whole, taken = operand.type.shape, nest.result_types[0].shape
    limits = {
        dim: size - length
        for dim, (size, length) in enumerate(zip(whole, taken, strict=True))
        if length > 1 and not _is_within(splats[1 + dim], size - length)
    }
    if limits:
        starts = [signed(emitter, start, whole) for start in starts]
    for dim, limit in limits.items():
        starts[dim] = clamped(emitter, starts[dim], limit + 1)
    return [operand, *starts]


def _is_within(splat: str | None, limit: int) -> bool:
    return splat is not None and 0 <= float(splat) <= limit


@rule("dynamic_update_slice")
def dynamic_update_slice(op: Signature) -> Iterator[Factor]:
    """``(v, d), (_, d), (), () -> (v, d)`` where part of v and all of d are written."""
    starts = (None,) * (len(op.operands) - 2)
    for dim, size in enumerate(op.operands[0].shape):
        whole = op.operands[1].shape[dim] == size and dim not in marks(op)
        yield Factor(size, (dim, dim if whole else None, *starts), (dim,))


@local_attrs("dynamic_update_slice")
def dynamic_update_slice_attrs(nest: Nest) -> dict[str, str]:
    """Only a mark on what is written in part."""
    return marked(nest.signature.attrs, _written_in_part(nest))


def _written_in_part(nest: Nest) -> list[int]:
    """Tiled dimensions of which an update covers several elements but not all."""
    whole, update = (nest.signature.operands[i].shape for i in (0, 1))
    part = [dim for dim, size in enumerate(whole) if 1 < update[dim] < size]
    return tiled_dims(nest, part)


@local_form("dynamic_update_slice")
def dynamic_update_slice_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """Write what is there already if the place is in another tile.

    An update of several elements may reach into several tiles: it is written into the
    tile with margins as long as it is, which are then cut off.
    """
    operand, update, *starts = operands
    part = _written_in_part(nest)
    margins = [size if dim in part else 0 for dim, size in enumerate(update.type.shape)]
    found = _local_starts(nest, emitter, starts, nest.signature.operands[1].shape)
    whole = nest.signature.operands[0].shape
    starts, mask = found or ([signed(emitter, s, whole) for s in starts], None)
    if part:
        none, filling = [0] * len(margins), anything(operand.type)
        operand = padded(emitter, operand, margins, margins, none, filling)
        for dim in part:
            starts[dim] = _start_behind_margin(nest, emitter, starts[dim], dim)
    if mask is not None:
        old = sliced_at(emitter, operand, starts, update.type.shape)
        update = selected(emitter, mask, update, old)
    kind, attrs = nest.signature.kind, nest.signature.attrs
    (made,) = emitter.op(kind, (operand, update, *starts), (operand.type,), attrs)
    if part:
        made = sliced(emitter, made, margins, nest.result_types[0].shape)
    return (made,)


def _start_behind_margin(nest: Nest, emitter: Emitter, start: Ssa, dim: int) -> Ssa:
    """Where an update starts in a tile that has a margin of its length."""
    whole, length = (nest.signature.operands[i].shape[dim] for i in (0, 1))
    start = clamped(emitter, start, whole - length + 1)
    start = shifted(nest, emitter, start, dim)
    margin = constant(emitter, start.type, str(length))
    start = binary(emitter, "add", start, margin)
    return clamped(emitter, start, nest.operand_types[0].shape[dim] + length + 1)


def _local_starts(
    nest: Nest, emitter: Emitter, starts: Sequence[Ssa], window: tuple[int, ...]
) -> tuple[list[Ssa], Ssa] | None:
    """Starts in this tile and whether it is the one meant; None if none is needed."""
    whole = nest.signature.operands[0].shape
    single = [
        dim
        for dim, axes in enumerate(nest.needs[0])
        if axes and window[dim] == 1 < whole[dim]
    ]
    if not single:
        return None
    made = [signed(emitter, start, whole) for start in starts]
    masks = []
    for dim in single:
        made[dim], mask = located(nest, emitter, made[dim], dim)
        masks.append(mask)
    return made, all_of(emitter, masks)


def scanned_dims(op: Signature) -> tuple[tuple[int, ...], ...]:
    """For each operand, dimensions that the op takes one slice of at a time.

    In a loop these are the stacked layers of a scan: not a dimension to tile.
    """
    if op.name not in ("dynamic_slice", "dynamic_update_slice"):
        return ((),) * len(op.operands)
    window = op.results[0] if op.name == "dynamic_slice" else op.operands[1]
    whole = op.operands[0].shape
    dims = tuple(d for d, n in enumerate(window.shape) if n == 1 and whole[d] > 1)
    return (dims, *((),) * (len(op.operands) - 1))


def taken_dims(op: Signature) -> tuple[int, ...]:
    """Dimensions of the first operand of which the op takes one slice."""
    if op.name not in ("slice", "dynamic_slice"):
        return ()
    whole, taken = op.operands[0].shape, op.results[0].shape
    return tuple(d for d, size in enumerate(taken) if size == 1 < whole[d])
