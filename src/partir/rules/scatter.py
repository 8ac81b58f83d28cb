"""scatter: gradients of look-ups, updates in place, sums over the edges of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import (
    Emitter,
    Ssa,
    binary,
    compared,
    constant,
    padded,
    selected,
    sliced,
)
from partir.rules.lookup import Lookup, marked, scatter_lookup, tiled_dims
from partir.rules.monoids import anything, common_monoid, reducer
from partir.rules.nest import Nest
from partir.rules.positions import Columns, is_tile, shifted, signed
from partir.rules.registry import local_attrs, local_form, rule


@rule("scatter")
def scatter(op: Signature) -> Iterator[Factor]:
    """``(v, d), (b, _), (b, d) -> (v, d) sum=b``; the operand counts once.

    Updates for another tile of the dimension scattered into are out of range here.
    """
    count = len(op.results)
    lookup = scatter_lookup(op)
    monoid = common_monoid(op.lambdas[0], count)
    unmoved = (None,) * (count + 1)
    for dim, update, into in lookup.positions:
        operands = (into,) * count + (dim,) + (update,) * count
        size = lookup.indices[dim]
        if into is not None:
            yield Factor(size, operands, (into,) * count, loose=True)
        elif monoid:
            once = tuple(range(count))
            # Behind the end of a short tile, indices are equal and in no order.
            loose = not _promises(op)
            yield Factor(size, operands, (None,) * count, monoid, once, loose=loose)
    for dim, update in lookup.whole():
        operands = (dim,) * count + (None,) + (update,) * count
        yield Factor(lookup.operand[dim], operands, (dim,) * count, loose=True)
    single = lookup.single()
    for dim in (*single, *lookup.part()):
        operands, results = (dim,) * count + unmoved, (dim,) * count
        yield Factor(lookup.operand[dim], operands, results, loose=dim in single)


def _promises(op: Signature) -> bool:
    """Whether indices are said to differ, or to be in order."""
    names = ("unique_indices", "indices_are_sorted")
    return any("true" in op.attrs.get(name, "") for name in names)


@local_attrs("scatter")
def scatter_attrs(nest: Nest) -> dict[str, str]:
    """Only a mark on what windows cover in part, and what is said of indices still."""
    lookup = scatter_lookup(nest.signature)
    return marked(_attrs(nest, lookup), tiled_dims(nest, lookup.part()))


def _attrs(nest: Nest, lookup: Lookup) -> dict[str, str]:
    """Indices that are counted from the start of a tile are in order no longer.

    Close to the least of their type, they wrap round. Those that differ still do.
    """
    attrs = dict(nest.signature.attrs)
    if _brought(nest, lookup) and "indices_are_sorted" in attrs:
        attrs["indices_are_sorted"] = "false"
    return attrs


def _brought(nest: Nest, lookup: Lookup) -> list[int]:
    """Dimensions whose indices are brought into tiles."""
    dims = (*tiled_dims(nest, lookup.single()), *tiled_dims(nest, lookup.part()))
    return [dim for dim in dims if dim in lookup.addressed]


@local_form("scatter")
def scatter_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """Indices counted from the start of the tile.

    Windows of several elements may reach into several tiles: they are written into the
    tile with margins as long as they are, which are then cut off.
    """
    lookup = scatter_lookup(nest.signature)
    part = tiled_dims(nest, lookup.part())
    margins = [n if dim in part else 0 for dim, n in enumerate(lookup.sizes)]
    count = len(nest.result_types)
    indices = _from_tile_start(nest, emitter, operands[count], lookup)
    old = operands[:count]
    if part:
        old = [_with_margins(emitter, operand, margins) for operand in old]
    made = _scattered(nest, emitter, old, indices, operands[count + 1 :])
    for dim in tiled_dims(nest, lookup.single()):
        if dim not in lookup.addressed:  # it is the first element that is meant
            mask = is_tile(nest, emitter, dim, 0)
            pairs = zip(made, old, strict=True)
            made = [selected(emitter, mask, new, unchanged) for new, unchanged in pairs]
    if part:
        shape = nest.result_types[0].shape
        made = [sliced(emitter, value, margins, shape) for value in made]
    return tuple(made)


def _with_margins(emitter: Emitter, operand: Ssa, margins: Sequence[int]) -> Ssa:
    none, filling = [0] * len(margins), anything(operand.type)
    return padded(emitter, operand, margins, margins, none, filling)


def _scattered(
    nest: Nest,
    emitter: Emitter,
    operands: Sequence[Ssa],
    indices: Ssa,
    updates: Sequence[Ssa],
) -> list[Ssa]:
    """Reductions of several operands are written one by one.

    XLA confuses operands of one scatter that are equal, as masked ones are.
    """
    kind, attrs = nest.signature.kind, _attrs(nest, scatter_lookup(nest.signature))
    types = [operand.type for operand in operands]
    monoids = {loop.factor.reduce for loop in nest.loops} - {None}
    if len(operands) == 1 or not monoids:
        together = (*operands, indices, *updates)
        return list(emitter.op(kind, together, types, attrs, nest.signature.lambdas))
    (monoid,) = monoids
    assert monoid is not None
    made: list[Ssa] = []
    for operand, update in zip(operands, updates, strict=True):
        region = (reducer(monoid, operand.type.dtype),)
        one = (operand, indices, update)
        made += emitter.op(kind, one, (operand.type,), attrs, region)
    return made


def _from_tile_start(nest: Nest, emitter: Emitter, indices: Ssa, lookup: Lookup) -> Ssa:
    """Indices for a tile; those of another tile are out of range.

    In any case of a type that holds them all: XLA's bounds for single updates overflow
    in a small one.
    """
    indices = signed(emitter, indices, lookup.operand)
    part, addressed = tiled_dims(nest, lookup.part()), _brought(nest, lookup)
    if not addressed:
        return indices
    columns = Columns.of(emitter, indices, lookup.vector)
    for dim in addressed:
        place = lookup.addressed.index(dim)
        column = shifted(nest, emitter, columns.items[place], dim)
        if dim in part:
            old = columns.items[place]
            column = _behind_margin(nest, emitter, old, column, dim, lookup)
        columns.items[place] = column
    return columns.joined()


def _behind_margin(
    nest: Nest, emitter: Emitter, index: Ssa, local: Ssa, dim: int, lookup: Lookup
) -> Ssa:
    """Indices in a tile with margins, in the same order as before.

    A window that is not wholly within the whole is written nowhere.
    """
    size, length = lookup.operand[dim], lookup.sizes[dim]

    def number(value: int) -> Ssa:
        return constant(emitter, local.type, str(value))

    made = binary(emitter, "add", local, number(length))
    below = compared(emitter, index, "LT", number(0))
    above = compared(emitter, index, "GT", number(size - length))
    end = nest.operand_types[0].shape[dim] + 2 * length
    made = selected(emitter, below, number(-length - 1), made)
    return selected(emitter, above, number(end + 1), made)
