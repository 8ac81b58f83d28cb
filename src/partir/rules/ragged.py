"""chlo.ragged_dot: rows in consecutive groups, each group with a matrix of its own.

One dimension of the left operand, the *ragged* one, falls into groups whose sizes are
the third operand. It is free (mixture of experts), contracted (the gradient of that:
then the result has a dimension of groups) or a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partir.ir.attributes import fields, i64_array
from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.rules.contraction import dim_pairs, free_dims
from partir.rules.factor import Factor
from partir.rules.local import (
    Emitter,
    Ssa,
    binary,
    compared,
    constant,
    converted,
    emit_default,
    spread,
    tile_offset,
)
from partir.rules.monoids import reducer
from partir.rules.nest import Nest
from partir.rules.positions import signed, zero_outside_tile
from partir.rules.registry import local_form, rule


@dataclass(frozen=True, slots=True)
class Ragged:
    """Which dimension does what; `prefix` are those that group sizes differ along."""

    batch: list[tuple[int, int]]
    contract: list[tuple[int, int]]
    left: list[int]
    right: list[int]
    ragged: int
    group: int | None
    prefix: list[int]
    grouped_result: bool

    @classmethod
    def of(cls, op: Signature) -> Ragged:
        """Read an op's attributes."""
        numbers = fields(op.attrs["ragged_dot_dimension_numbers"])
        batch = dim_pairs(numbers, "batching")
        contract = dim_pairs(numbers, "contracting")
        (ragged,) = numbers["lhs_ragged_dimensions"]
        groups = numbers.get("rhs_group_dimensions", ())
        ranks = [len(operand.shape) for operand in op.operands]
        left = free_dims(ranks[0], [pair[0] for pair in batch + contract])
        taken = [*(pair[1] for pair in batch + contract), *groups]
        contracted = [pair[0] for pair in contract]
        batches = [pair[0] for pair in batch]
        rows = next(dims for dims in (left, contracted, batches) if ragged in dims)
        before = rows[: rows.index(ragged)]
        prefix = before if rows is batches else batches + before
        return cls(
            batch,
            contract,
            left,
            free_dims(ranks[1], taken),
            ragged,
            groups[0] if groups else None,
            prefix if ranks[2] > 1 else [],
            rows is contracted,
        )


@rule("chlo.ragged_dot", pieces=True)
def ragged_dot(op: Signature) -> Iterator[Factor]:
    """``(b, i, k), (g, b, k, j), (_) -> (b, i, j) sum=k sum=g``.

    Contracted over groups: ``(b, i, k), (b, k, j), (_) -> (g, b, i, j) sum=k``.
    """
    dims = Ragged.of(op)
    left, right, sizes = (operand.shape for operand in op.operands)

    def sizes_dim(dim: int) -> int | None:
        return dims.prefix.index(dim) if dim in dims.prefix else None

    result = int(dims.grouped_result)
    for x, y in dims.batch:
        yield Factor(left[x], (x, y, sizes_dim(x)), (result,))
        result += 1
    for x in dims.left:
        yield Factor(left[x], (x, None, sizes_dim(x)), (result,))
        result += 1
    for y in dims.right:
        yield Factor(right[y], (None, y, None), (result,))
        result += 1
    for x, y in dims.contract:
        yield Factor(left[x], (x, y, sizes_dim(x)), (None,), "sum")
    if len(sizes) == 1 and dims.group is not None:
        yield Factor(right[dims.group], (None, dims.group, None), (None,), "sum")
    elif len(sizes) == 1 and dims.grouped_result:
        yield Factor(op.results[0].shape[0], (None, None, None), (0,))


@local_form("chlo.ragged_dot")
def ragged_dot_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """A tile of rows has its share of each group; a tile of groups has its own rows.

    The latter are brought to the front, and the rest is not looked at.
    """
    dims = Ragged.of(nest.signature)
    left, right, sizes = operands
    whole = nest.signature.operands[0].shape
    sizes = signed(emitter, sizes, [whole[dims.ragged]])
    first_row = tile_offset(nest, emitter, 0, dims.ragged)
    if first_row is not None:
        rows = left.type.shape[dims.ragged]
        sizes = _sizes_in_tile(emitter, sizes, first_row, rows)
    first_group = _first_group(nest, emitter, dims)
    if first_group is None:
        return emit_default(nest, emitter, (left, right, sizes))
    count = nest.operand_types[1].shape[dims.group] if dims.group is not None else 0
    count = count or nest.result_types[0].shape[0]
    own, start, total = _own_groups(emitter, sizes, first_group, count)
    left = _rolled(emitter, left, dims.ragged, start)
    if dims.grouped_result:
        contracted = dict(dims.contract)[dims.ragged]
        right = _rolled(emitter, right, contracted, start)
        return emit_default(nest, emitter, (left, right, own))
    (made,) = emit_default(nest, emitter, (left, right, own))
    place = len(dims.batch) + dims.left.index(dims.ragged)
    return (_rolled_back(emitter, made, place, start, total),)


def _first_group(nest: Nest, emitter: Emitter, dims: Ragged) -> Ssa | None:
    if dims.group is not None:
        return tile_offset(nest, emitter, 1, dims.group)
    return tile_offset(nest, emitter, 3, 0) if dims.grouped_result else None


def _ends(emitter: Emitter, sizes: Ssa) -> Ssa:
    """Where each group ends: the cumulative sum along the last dimension."""
    *rest, count = sizes.type.shape
    scalar = tensor((), sizes.type.dtype)
    padding = [[0, 0] for _ in rest] + [[count - 1, 0]]
    attrs = {
        "window_dimensions": i64_array([*(1 for _ in rest), count]),
        "padding": f"dense<{padding}> : tensor<{len(padding)}x2xi64>",
    }
    zero = constant(emitter, scalar, "0")
    region = (reducer("sum", scalar.dtype),)
    kind = "stablehlo.reduce_window"
    return emitter.op(kind, (sizes, zero), (sizes.type,), attrs, region)[0]


def _sizes_in_tile(emitter: Emitter, sizes: Ssa, first: Ssa, count: int) -> Ssa:
    """How many of the `count` rows from `first` are in each group."""
    scalar = tensor((), sizes.type.dtype)
    low = converted(emitter, first, scalar.dtype)
    high = binary(emitter, "add", low, constant(emitter, scalar, str(count)))
    ends = _ends(emitter, sizes)
    starts = binary(emitter, "subtract", ends, sizes)
    bounds = [
        emitter.op("stablehlo.clamp", (low, edge, high), (sizes.type,))[0]
        for edge in (ends, starts)
    ]
    return binary(emitter, "subtract", *bounds)


def _own_groups(
    emitter: Emitter, sizes: Ssa, first: Ssa, count: int
) -> tuple[Ssa, Ssa, Ssa]:
    """Sizes of `count` groups from `first`, where their rows start, and how many."""
    first = converted(emitter, first, sizes.type.dtype)
    last = constant(emitter, first.type, str(count - 1))
    ends = _ends(emitter, sizes)
    starts = binary(emitter, "subtract", ends, sizes)
    start = _element(emitter, starts, first)
    end = _element(emitter, ends, binary(emitter, "add", first, last))
    attrs = {"slice_sizes": i64_array([count])}
    type_ = sizes.type.with_shape((count,))
    (own,) = emitter.op("stablehlo.dynamic_slice", (sizes, first), (type_,), attrs)
    return own, start, binary(emitter, "subtract", end, start)


def _element(emitter: Emitter, values: Ssa, index: Ssa) -> Ssa:
    attrs = {"slice_sizes": i64_array([1])}
    one = values.type.with_shape((1,))
    (made,) = emitter.op("stablehlo.dynamic_slice", (values, index), (one,), attrs)
    return emitter.op("stablehlo.reshape", (made,), (index.type,))[0]


def _rolled(emitter: Emitter, value: Ssa, dim: int, start: Ssa) -> Ssa:
    """`value` from `start` on, then what was before it."""
    shape = list(value.type.shape)
    shape[dim] *= 2
    twice = value.type.with_shape(tuple(shape))
    attrs = {"dimension": f"{dim} : i64"}
    (made,) = emitter.op("stablehlo.concatenate", (value, value), (twice,), attrs)
    zero = constant(emitter, start.type, "0")
    starts = [start if d == dim else zero for d in range(len(shape))]
    attrs = {"slice_sizes": i64_array(value.type.shape)}
    kind = "stablehlo.dynamic_slice"
    return emitter.op(kind, (made, *starts), (value.type,), attrs)[0]


def _rolled_back(emitter: Emitter, value: Ssa, dim: int, start: Ssa, total: Ssa) -> Ssa:
    """The first `total` rows at `start`, nothing elsewhere."""
    size = value.type.shape[dim]
    rows = tensor(value.type.shape, start.type.dtype)
    attrs = {"iota_dimension": f"{dim} : i64"}
    (row,) = emitter.op("stablehlo.iota", (), (rows,), attrs)
    mask = compared(emitter, row, "LT", spread(emitter, total, rows))
    value = zero_outside_tile(emitter, value, mask)
    back = binary(emitter, "subtract", constant(emitter, start.type, str(size)), start)
    return _rolled(emitter, value, dim, back)
