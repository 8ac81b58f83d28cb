"""gather, scatter and dynamic slices, as embeddings, losses and caches use them."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.attributes import fields, i64_array, ints
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.monoids import monoid_of
from partir.rules.nest import Nest
from partir.rules.registry import local_attrs, rule


@rule("gather")
def gather(op: Signature) -> Iterator[Factor]:
    """``(_, d), (b, s, _) -> (b, s, d)``: positions looked up, and windows whole."""
    numbers = fields(op.attrs["dimension_numbers"])
    operand, indices = op.operands[0].shape, op.operands[1].shape
    offsets = numbers.get("offset_dims", ())
    batch_operand = numbers.get("operand_batching_dims", ())
    batch_indices = numbers.get("start_indices_batching_dims", ())
    vector = numbers.get("index_vector_dim", (0,))[0]
    positions = [d for d in range(len(op.results[0].shape)) if d not in offsets]
    looked_up = [d for d in range(len(indices)) if d != vector]
    for dim, result in zip(looked_up, positions, strict=True):
        source = (
            batch_operand[batch_indices.index(dim)] if dim in batch_indices else None
        )
        yield Factor(indices[dim], (source, dim), (result,))
    dropped = (*numbers.get("collapsed_slice_dims", ()), *batch_operand)
    windows = [d for d in range(len(operand)) if d not in dropped]
    sizes = ints(op.attrs["slice_sizes"])
    for dim, result in zip(windows, offsets, strict=True):
        if sizes[dim] == operand[dim]:
            yield Factor(operand[dim], (dim, None), (result,))


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


@rule("scatter")
def scatter(op: Signature) -> Iterator[Factor]:
    """``(_, d), (b, _), (b, d) -> (_, d) sum=b``; the operand counts once."""
    numbers = fields(op.attrs["scatter_dimension_numbers"])
    count = len(op.results)
    operand, indices = op.operands[0].shape, op.operands[count].shape
    updates = op.operands[count + 1].shape
    windows = numbers.get("update_window_dims", ())
    batch_operand = numbers.get("input_batching_dims", ())
    batch_indices = numbers.get("scatter_indices_batching_dims", ())
    vector = numbers.get("index_vector_dim", (0,))[0]
    monoid = monoid_of(op.lambdas[0]) if count == 1 else None
    positions = [d for d in range(len(updates)) if d not in windows]
    looked_up = [d for d in range(len(indices)) if d != vector]

    def factor(size: int, into: int | None, index: int | None, update: int) -> Factor:
        operands = (into,) * count + (index,) + (update,) * count
        if into is not None:
            return Factor(size, operands, (into,) * count)
        return Factor(size, operands, (None,), monoid, once=(0,))

    for dim, update in zip(looked_up, positions, strict=True):
        if dim in batch_indices:
            into = batch_operand[batch_indices.index(dim)]
            yield factor(indices[dim], into, dim, update)
        elif monoid:
            yield factor(indices[dim], None, dim, update)
    dropped = (*numbers.get("inserted_window_dims", ()), *batch_operand)
    kept = [d for d in range(len(operand)) if d not in dropped]
    for dim, update in zip(kept, windows, strict=True):
        if updates[update] == operand[dim]:
            yield factor(operand[dim], dim, None, update)


@rule("dynamic_slice")
def dynamic_slice(op: Signature) -> Iterator[Factor]:
    """Dimensions that are taken whole: their start can only be zero."""
    starts = (None,) * (len(op.operands) - 1)
    for dim, size in enumerate(op.operands[0].shape):
        if op.results[0].shape[dim] == size:
            yield Factor(size, (dim, *starts), (dim,))


@local_attrs("dynamic_slice")
def dynamic_slice_attrs(nest: Nest) -> dict[str, str]:
    """Sizes are those of the local result."""
    sizes = i64_array(nest.result_types[0].shape)
    return {**nest.signature.attrs, "slice_sizes": sizes}


@rule("dynamic_update_slice")
def dynamic_update_slice(op: Signature) -> Iterator[Factor]:
    """Dimensions that the update covers whole."""
    starts = (None,) * (len(op.operands) - 2)
    for dim, size in enumerate(op.operands[0].shape):
        if op.operands[1].shape[dim] == size:
            yield Factor(size, (dim, dim, *starts), (dim,))


def stepped_dims(op: Signature) -> tuple[tuple[int, ...], ...]:
    """For each operand, dimensions that the op takes one slice of at a time.

    In a loop these are the stacked layers of a scan: not a dimension to tile.
    """
    if op.name not in ("dynamic_slice", "dynamic_update_slice"):
        return ((),) * len(op.operands)
    window = op.results[0] if op.name == "dynamic_slice" else op.operands[1]
    whole = op.operands[0].shape
    dims = tuple(d for d, n in enumerate(window.shape) if n == 1 and whole[d] > 1)
    return (dims, *((),) * (len(op.operands) - 1))
