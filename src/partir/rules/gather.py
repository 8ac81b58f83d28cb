"""gather: embeddings, losses, caches, messages along the edges of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partir.ir.attributes import i64_array, integer, ints
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import Emitter, Ssa, emit_default, spread
from partir.rules.lookup import gather_lookup, tiled_dims
from partir.rules.monoids import additive
from partir.rules.nest import Nest
from partir.rules.positions import (
    Columns,
    is_tile,
    located,
    signed,
    zero_outside_tile,
)
from partir.rules.registry import local_attrs, local_form, rule


@rule("gather", pieces=True)
def gather(op: Signature) -> Iterator[Factor]:
    """``(v, d), (b, s, _) -> (b, s, d) sum=v``.

    Positions looked up, windows that are whole, and the dimension looked up in: there
    each tile gives what it has.
    """
    lookup = gather_lookup(op)
    for dim, result, source in lookup.positions:
        yield Factor(lookup.indices[dim], (source, dim), (result,), loose=True)
    for dim, result in lookup.whole():
        yield Factor(lookup.operand[dim], (dim, None), (result,), loose=True)
    monoid = additive(op.results[0].dtype)
    for dim in lookup.single():
        yield Factor(lookup.operand[dim], (dim, None), (None,), monoid, loose=True)


@local_attrs("gather")
def gather_attrs(nest: Nest) -> dict[str, str]:
    """A tiled window is as large as the tile; batching dimensions stay at one.

    Of several columns of indices that are in order, one that is brought into the tile
    leaves the others in none; nor is what is behind the end of a short tile.
    """
    attrs, lookup = dict(nest.signature.attrs), gather_lookup(nest.signature)
    brought = {*tiled_dims(nest, lookup.single())}.intersection(lookup.addressed)
    batches = all(source is not None for *_, source in lookup.positions)
    short = not batches and any(  # one index of each row of a batch is in order
        loop.factor.operands[1] is not None and loop.factor.size % loop.size
        for loop in nest.loops
    )
    unordered = short or (bool(brought) and len(lookup.addressed) > 1)
    if unordered and "indices_are_sorted" in attrs:
        attrs["indices_are_sorted"] = "false"
    sizes = list(ints(attrs["slice_sizes"]))
    whole = nest.signature.operands[0].shape
    for dim, axes in enumerate(nest.needs[0]):
        if axes and sizes[dim] == whole[dim]:
            sizes[dim] = nest.operand_types[0].shape[dim]
    attrs["slice_sizes"] = i64_array(sizes)
    return attrs


@local_form("gather")
def gather_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """Look up in this tile; what is in another one is left out.

    Indices out of range count as the nearest in range of the whole, not of the tile.
    """
    lookup = gather_lookup(nest.signature)
    tiled = tiled_dims(nest, lookup.single())
    if not tiled:
        return emit_default(nest, emitter, operands)
    columns = Columns.of(
        emitter, signed(emitter, operands[1], lookup.operand), lookup.vector
    )
    masks = []
    for dim in tiled:
        if dim not in lookup.addressed:
            masks.append(is_tile(nest, emitter, dim, 0))
            continue
        place = lookup.addressed.index(dim)
        column, mask = located(nest, emitter, columns.items[place], dim)
        columns.items[place] = column
        masks.append(columns.without_vector(mask))
    (made,) = emit_default(nest, emitter, (operands[0], columns.joined()))
    places = [place for _, place, _ in lookup.positions]
    for mask in masks:
        dims = places if mask.type.shape else ()
        mask = spread(emitter, mask, made.type, dims)
        made = zero_outside_tile(emitter, made, mask)
    return (made,)


@rule("torch_index_select")
def torch_index_select(op: Signature) -> Iterator[Factor]:
    """``(b, i, _, j), (b, s) -> (b, i, s, j)``: all but the dimension looked up in."""
    dim, batch = (integer(op.attrs[name]) for name in ("dim", "batch_dims"))
    operand, index = op.operands[0].shape, op.operands[1].shape
    added = len(index) - batch
    for place, size in enumerate(operand):
        if place < dim:
            yield Factor(size, (place, place if place < batch else None), (place,))
        elif place > dim:
            yield Factor(size, (place, None), (place + added - 1,))
    for place in range(batch, len(index)):
        yield Factor(index[place], (None, place), (dim + place - batch,))
