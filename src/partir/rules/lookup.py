"""gather and scatter: embeddings, losses, their gradients, caches, graph networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partir.ir.attributes import fields, i64_array, integer, ints
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import Emitter, Ssa, emit_default, selected, spread
from partir.rules.monoids import additive, common_monoid, reducer
from partir.rules.nest import Nest
from partir.rules.positions import (
    Columns,
    is_tile,
    located,
    shifted,
    signed,
    without_strangers,
)
from partir.rules.registry import local_attrs, local_form, rule


@dataclass(frozen=True, slots=True)
class Lookup:
    """What gather and scatter have in common, whatever they call it.

    Index vectors stand along dimension `vector` of the indices; entry i addresses
    operand dimension `addressed[i]`. What is found there is a window, of size
    `sizes[d]` along operand dimension d. The *slices* are gather's result, scatter's
    updates: window dimensions and, between them, those of the indices.
    """

    operand: tuple[int, ...]
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    addressed: tuple[int, ...]
    vector: int
    positions: tuple[tuple[int, int, int | None], ...]
    """Dimensions of indices, slices and (in batches) operand that go together."""
    windows: tuple[tuple[int, int], ...]
    """Dimensions of operand and slices that a window runs along."""

    def single(self) -> list[int]:
        """Operand dimensions of which one element is looked up.

        Where it is, an index says; in a dimension that none addresses, it is the first.
        """
        batch = [into for _, _, into in self.positions]
        return [
            dim
            for dim, size in enumerate(self.operand)
            if self.sizes[dim] == 1 < size and dim not in batch
        ]

    def whole(self) -> Iterator[tuple[int, int]]:
        """Dimensions (operand, slices) that a window covers from end to end."""
        for dim, offset in self.windows:
            if self.sizes[dim] == self.operand[dim]:
                yield dim, offset


def _lookup(
    op: Signature, attr: str, indices: int, slices: int, names: Sequence[str]
) -> Lookup:
    numbers = fields(op.attrs[attr])
    offsets, dropped, batch, batch_indices, addressed = (
        numbers.get(name, ()) for name in names
    )
    vector = numbers.get("index_vector_dim", (0,))[0]
    operand, index = op.operands[0].shape, op.operands[indices].shape
    shape = (*op.operands, *op.results)[slices].shape
    kept = [d for d in range(len(operand)) if d not in (*dropped, *batch)]
    windows = tuple(zip(kept, offsets, strict=True))
    sizes = [1] * len(operand)
    for dim, offset in windows:
        sizes[dim] = shape[offset]
    places = [d for d in range(len(shape)) if d not in offsets]
    looked_up = [d for d in range(len(index)) if d != vector]
    into = dict(zip(batch_indices, batch, strict=True))
    return Lookup(
        operand=operand,
        indices=index,
        sizes=tuple(sizes),
        addressed=addressed,
        vector=vector,
        positions=tuple(
            (dim, place, into.get(dim))
            for dim, place in zip(looked_up, places, strict=True)
        ),
        windows=windows,
    )


def _gather_lookup(op: Signature) -> Lookup:
    names = (
        "offset_dims collapsed_slice_dims operand_batching_dims "
        "start_indices_batching_dims start_index_map"
    )
    return _lookup(op, "dimension_numbers", 1, 2, names.split())


def _scatter_lookup(op: Signature) -> Lookup:
    names = (
        "update_window_dims inserted_window_dims input_batching_dims "
        "scatter_indices_batching_dims scatter_dims_to_operand_dims"
    )
    count = len(op.results)
    attr = "scatter_dimension_numbers"
    return _lookup(op, attr, count, count + 1, names.split())


@rule("gather")
def gather(op: Signature) -> Iterator[Factor]:
    """``(v, d), (b, s, _) -> (b, s, d) sum=v``.

    Positions looked up, windows that are whole, and the dimension looked up in: there
    each tile gives what it has.
    """
    lookup = _gather_lookup(op)
    for dim, result, source in lookup.positions:
        yield Factor(lookup.indices[dim], (source, dim), (result,))
    for dim, result in lookup.whole():
        yield Factor(lookup.operand[dim], (dim, None), (result,))
    monoid = additive(op.results[0].dtype)
    for dim in lookup.single():
        yield Factor(lookup.operand[dim], (dim, None), (None,), monoid)


@local_attrs("gather")
def gather_attrs(nest: Nest) -> dict[str, str]:
    """A tiled window is as large as the tile; batching dimensions stay at one."""
    attrs = dict(nest.signature.attrs)
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
    lookup = _gather_lookup(nest.signature)
    tiled = [dim for dim in lookup.single() if nest.needs[0][dim]]
    if not tiled:
        return emit_default(nest, emitter, operands)
    columns = Columns.of(emitter, signed(emitter, operands[1]), lookup.vector)
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
        made = without_strangers(emitter, made, mask)
    return (made,)


@rule("scatter")
def scatter(op: Signature) -> Iterator[Factor]:
    """``(v, d), (b, _), (b, d) -> (v, d) sum=b``; the operand counts once.

    Updates for another tile of the dimension scattered into are out of range here.
    """
    count = len(op.results)
    lookup = _scatter_lookup(op)
    monoid = common_monoid(op.lambdas[0], count)
    unmoved = (None,) * (count + 1)
    for dim, update, into in lookup.positions:
        operands = (into,) * count + (dim,) + (update,) * count
        size = lookup.indices[dim]
        if into is not None:
            yield Factor(size, operands, (into,) * count)
        elif monoid:
            yield Factor(size, operands, (None,) * count, monoid, tuple(range(count)))
    for dim, update in lookup.whole():
        operands = (dim,) * count + (None,) + (update,) * count
        yield Factor(lookup.operand[dim], operands, (dim,) * count)
    for dim in lookup.single():
        yield Factor(lookup.operand[dim], (dim,) * count + unmoved, (dim,) * count)


@local_form("scatter")
def scatter_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """Indices counted from the start of the tile; what none addresses is the first.

    Reductions of several operands are written one by one: XLA confuses operands of
    one scatter that are equal, as masked ones are.
    """
    count = len(nest.result_types)
    indices = _from_tile_start(nest, emitter, operands[count])
    made = _scattered(nest, emitter, operands, indices)
    lookup = _scatter_lookup(nest.signature)
    for dim in set(lookup.single()) - set(lookup.addressed):
        if nest.needs[0][dim]:
            mask = is_tile(nest, emitter, dim, 0)
            made = [
                selected(emitter, mask, value, operand)
                for value, operand in zip(made, operands, strict=False)
            ]
    return tuple(made)


def _scattered(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa], indices: Ssa
) -> Sequence[Ssa]:
    count = len(nest.result_types)
    monoids = {loop.factor.reduce for loop in nest.loops} - {None}
    if count == 1 or not monoids:
        together = (*operands[:count], indices, *operands[count + 1 :])
        return emit_default(nest, emitter, together)
    (monoid,) = monoids
    assert monoid is not None
    results: list[Ssa] = []
    for number, type_ in enumerate(nest.result_types):
        one = (operands[number], indices, operands[count + 1 + number])
        region = (reducer(monoid, type_.dtype),)
        kind = nest.signature.kind
        results += emitter.op(kind, one, (type_,), nest.attrs, region)
    return results


def _from_tile_start(nest: Nest, emitter: Emitter, indices: Ssa) -> Ssa:
    """Indices of a scatter; those of another tile are out of range.

    In any case of a type that holds them all: XLA's bounds for single updates overflow
    in a small one.
    """
    lookup = _scatter_lookup(nest.signature)
    indices = signed(emitter, indices)
    tiled = [
        dim for dim in lookup.single() if nest.needs[0][dim] and dim in lookup.addressed
    ]
    if not tiled:
        return indices
    columns = Columns.of(emitter, indices, lookup.vector)
    for dim in tiled:
        place = lookup.addressed.index(dim)
        columns.items[place] = shifted(nest, emitter, columns.items[place], dim)
    return columns.joined()


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
