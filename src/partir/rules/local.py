"""What local forms are written against: an emitter of ops, and tile offsets.

The same local forms serve the SPMD program, where a loop's index is the device's
coordinate, and the sequential meaning, where it is a loop counter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from partir.ir.attributes import i64_array
from partir.ir.core import Lambda
from partir.ir.types import TensorType, tensor
from partir.rules.nest import Nest
from partir.rules.reach import Extent


class Ssa(NamedTuple):
    """An emitted value: its name in the output and its type."""

    name: str
    type: TensorType


class Emitter(Protocol):
    """Sink for local ops."""

    def op(
        self,
        kind: str,
        operands: Sequence[Ssa],
        results: Sequence[TensorType],
        attrs: Mapping[str, str] = ...,
        lambdas: tuple[Lambda, ...] = ...,
    ) -> tuple[Ssa, ...]:
        """Emit one op."""
        ...

    def index(self, axis: str) -> Ssa:
        """Index of the loop over `axis`, an i32 scalar."""
        ...


LocalForm = Callable[[Nest, Emitter, Sequence[Ssa]], tuple[Ssa, ...]]

INDEX = tensor((), "i32")


def place_type(size: int) -> TensorType:
    """A scalar for places in a dimension of this size, and for sums of two or three."""
    return INDEX if size < 2**29 else tensor((), "i64")


def emit_default(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """The same op at its local types, with its local attributes."""
    signature = nest.signature
    return emitter.op(
        signature.kind, operands, nest.result_types, nest.attrs, signature.lambdas
    )


def constant(emitter: Emitter, type_: TensorType, number: str) -> Ssa:
    """A tensor that is one number everywhere."""
    attrs = {"value": f"dense<{number}> : {type_.text}"}
    return emitter.op("stablehlo.constant", (), (type_,), attrs)[0]


def binary(emitter: Emitter, kind: str, left: Ssa, right: Ssa) -> Ssa:
    """An elementwise op of two operands of one type."""
    return emitter.op(f"stablehlo.{kind}", (left, right), (left.type,))[0]


def tile_index(nest: Nest, emitter: Emitter, position: int, dim: int) -> Ssa | None:
    """Which tile of dimension `dim` this iteration has (axes major first).

    None if the dimension is not tiled.
    """
    made: Ssa | None = None
    for loop in nest.loops:
        if loop.factor.dim(position) != dim:
            continue
        index = emitter.index(loop.axis)
        if made is not None:
            size = constant(emitter, INDEX, str(loop.size))
            index = binary(
                emitter, "add", binary(emitter, "multiply", made, size), index
            )
        made = index
    return made


def tile_offset(nest: Nest, emitter: Emitter, position: int, dim: int) -> Ssa | None:
    """First element of this iteration's tile along `dim`, None if it is not tiled."""
    extent = nest.extent(position, dim)
    if not extent.axes:
        return None
    whole = (*nest.signature.operands, *nest.signature.results)[position].shape[dim]
    return extent_start(emitter, extent, place_type(whole))


def extent_start(emitter: Emitter, extent: Extent, type_: TensorType = INDEX) -> Ssa:
    """Where this iteration's extent starts, as a number that holds all places."""
    made = constant(emitter, type_, str(extent.first)) if extent.first else None
    for axis, step in zip(extent.axes, extent.steps, strict=True):
        size = constant(emitter, type_, str(step))
        index = converted(emitter, emitter.index(axis), type_.dtype)
        offset = binary(emitter, "multiply", index, size)
        made = offset if made is None else binary(emitter, "add", made, offset)
    return made or constant(emitter, type_, "0")


def tile_starts(nest: Nest, emitter: Emitter, position: int) -> list[Ssa]:
    """First element of this iteration's tile in every dimension."""
    whole = (*nest.signature.operands, *nest.signature.results)[position]
    starts = {
        dim: start
        for dim in range(len(whole.shape))
        if (start := tile_offset(nest, emitter, position, dim)) is not None
    }
    return all_starts(emitter, whole, starts)


def all_starts(emitter: Emitter, of: TensorType, given: Mapping[int, Ssa]) -> list[Ssa]:
    """Starts in every dimension, in one type; zero where none is given."""
    type_ = place_type(max(of.shape, default=0))
    zero = constant(emitter, type_, "0")
    return [
        converted(emitter, given[dim], type_.dtype) if dim in given else zero
        for dim in range(len(of.shape))
    ]


def spread(
    emitter: Emitter, value: Ssa, type_: TensorType, dims: Sequence[int] = ()
) -> Ssa:
    """`value` repeated along the dimensions of `type_` that are not in `dims`."""
    if value.type.shape == type_.shape:
        return value
    attrs = {"broadcast_dimensions": i64_array(dims)}
    made = value.type.with_shape(type_.shape)
    return emitter.op("stablehlo.broadcast_in_dim", (value,), (made,), attrs)[0]


def compared(emitter: Emitter, left: Ssa, direction: str, right: Ssa) -> Ssa:
    """``left < right`` and the like, elementwise on integers."""
    attrs = {"comparison_direction": f"#stablehlo<comparison_direction {direction}>"}
    type_ = tensor(left.type.shape, "i1")
    return emitter.op("stablehlo.compare", (left, right), (type_,), attrs)[0]


def selected(emitter: Emitter, mask: Ssa, yes: Ssa, no: Ssa) -> Ssa:
    """`yes` where the mask, of the same shape or a scalar, holds; else `no`."""
    return emitter.op("stablehlo.select", (mask, yes, no), (yes.type,))[0]


def converted(emitter: Emitter, value: Ssa, dtype: str) -> Ssa:
    """`value` as another element type."""
    if value.type.dtype == dtype:
        return value
    type_ = tensor(value.type.shape, dtype)
    return emitter.op("stablehlo.convert", (value,), (type_,))[0]


def padded(
    emitter: Emitter,
    value: Ssa,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    number: str,
) -> Ssa:
    """`value` with `number` before, behind and between its elements."""
    shape = [
        before + size + max(size - 1, 0) * between + behind
        for size, before, behind, between in zip(
            value.type.shape, low, high, interior, strict=True
        )
    ]
    attrs = {
        "edge_padding_low": i64_array(low),
        "edge_padding_high": i64_array(high),
        "interior_padding": i64_array(interior),
    }
    filling = constant(emitter, value.type.with_shape(()), number)
    type_ = value.type.with_shape(tuple(shape))
    return emitter.op("stablehlo.pad", (value, filling), (type_,), attrs)[0]


def sliced(
    emitter: Emitter, value: Ssa, starts: Sequence[int], sizes: Sequence[int]
) -> Ssa:
    """A part of `value` at a place that is known."""
    limits = [start + size for start, size in zip(starts, sizes, strict=True)]
    attrs = {
        "start_indices": i64_array(starts),
        "limit_indices": i64_array(limits),
        "strides": i64_array([1] * len(limits)),
    }
    type_ = value.type.with_shape(tuple(sizes))
    return emitter.op("stablehlo.slice", (value,), (type_,), attrs)[0]


def sliced_at(
    emitter: Emitter, value: Ssa, starts: Sequence[Ssa], sizes: Sequence[int]
) -> Ssa:
    """A part of `value` at a place that is computed."""
    attrs = {"slice_sizes": i64_array(sizes)}
    type_ = value.type.with_shape(tuple(sizes))
    kind = "stablehlo.dynamic_slice"
    return emitter.op(kind, (value, *starts), (type_,), attrs)[0]
