"""Samples of gather, scatter and dynamic slices.

Indices are random between -1 and 4, so some lie outside of what they index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from partir.ir.core import Signature
from partir.ir.types import tensor
from tests.rules.samples.lookups import random_lookup
from tests.rules.samples.sample import (
    Sample,
    combine,
    numpy_dtype,
    random_value,
    sample,
    traced,
    written,
)

_X, _IDS = np.zeros((4, 6)), np.zeros((2, 4), np.int32)
_ROWS, _COLUMNS = np.zeros((4, 2), np.int32), np.zeros((4,), np.int32)
_CUBE = np.zeros((4, 6, 2))


def _from_jax(
    kind: str, functions: dict[str, tuple[Callable[..., Any], ...]]
) -> Iterator[Sample]:
    for label, (function, *args) in functions.items():
        for number, signature in enumerate(traced(kind, function, *args)):
            yield Sample(f"{label} {number}", signature)


def _numbers(kind: str, **fields: object) -> str:
    shown = ", ".join(f"{name} = {value}" for name, value in fields.items())
    return f"#stablehlo.{kind}<{shown}>"


def _slices(x: Any, starts: Any) -> Any:
    """A window per row, each at its own place: a gather with batching dimensions."""
    return jax.vmap(lambda row, s: lax.dynamic_slice(row, (s,), (3,)))(x, starts)


def _rows(x: Any, ids: Any) -> Any:
    """Whole rows of each matrix of a batch."""
    return jax.vmap(lambda matrix, i: matrix[i])(x, ids)


@sample("gather")
def gather(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """As jax writes look-ups; then the index vector elsewhere than last."""
    functions = {
        "embedding": (lambda x, i: jnp.take(x, i, axis=0), _X, _IDS),
        "clipped": (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), _X, _IDS),
        "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), _X, _ROWS),
        "points": (lambda x, i, j: x[i, j], _X, _COLUMNS, _COLUMNS),
        "windows per row": (_slices, _X, _COLUMNS),
        "rows per matrix": (_rows, _CUBE, _COLUMNS),
        "labels": (lambda x, i: jnp.take_along_axis(x, i[:, None], -1), _X, _COLUMNS),
    }
    yield from _from_jax(kind, functions)
    yield from _gathers_written(kind)
    yield from _far_indices(kind)
    yield from (_random_gather(kind, rng) for _ in range(6))


def _gathers_written(kind: str) -> Iterator[Sample]:
    first = _numbers(
        "gather",
        offset_dims=[1],
        collapsed_slice_dims=[0],
        start_index_map=[0],
        index_vector_dim=0,
    )
    middle = _numbers(
        "gather",
        offset_dims=[0, 2],
        collapsed_slice_dims=[1],
        start_index_map=[1, 2],
        index_vector_dim=1,
    )
    implicit = _numbers(
        "gather",
        offset_dims=[1, 2],
        start_index_map=[1],
        index_vector_dim=2,
        collapsed_slice_dims=[],
    )
    for types, numbers, sizes in (
        ("4x6xf64, 1x4xi32 -> 4x6xf64", first, "1, 6"),
        ("4x6x2xf64, 4x2x3xi32 -> 4x4x2x3xf64", middle, "4, 1, 2"),
        ("4x6xf64, 2x4xi64 -> 2x4x2x4xf64", implicit, "4, 2"),
    ):
        attrs = f"dimension_numbers = {numbers}, slice_sizes = array<i64: {sizes}>"
        yield Sample(f"{types} {sizes}", written(kind, types, attrs))


_ENDS = {
    "i8": (-128, -1, 0, 5, 127),
    "ui8": (0, 3, 127, 128, 255),
    "i32": (-(2**31), -1, 130, 199, 2**31 - 1),
    "ui32": (0, 199, 200, 2**31, 2**32 - 1),
    "i64": (-(2**63), -1, 199, 200, 2**63 - 1),
    "ui64": (0, 150, 2**32, 2**63, 2**64 - 1),
}


def _far_indices(kind: str) -> Iterator[Sample]:
    """Every type of index at its ends; in a table that small ones don't reach."""
    for number, (index, ends) in enumerate(_ENDS.items()):
        element = ("f64", "i1", "complex<f64>")[number % 3]
        table = random_value(np.random.default_rng(number), tensor((200,), element))
        if element == "f64":
            table[[5, 130]] = np.nan, np.inf
        ids = np.array(ends, numpy_dtype(index))
        yield _far(kind, index, element, (table, ids))


def _far(kind: str, index: str, element: str, given: tuple[np.ndarray, ...]) -> Sample:
    count = given[1].size
    if kind.endswith("gather"):
        numbers = _numbers(
            "gather",
            collapsed_slice_dims=[0],
            start_index_map=[0],
            index_vector_dim=1,
        )
        types = f"200x{element}, {count}x{index} -> {count}x{element}"
        attrs = f"dimension_numbers = {numbers}, slice_sizes = array<i64: 1>"
        return Sample(f"far {index}", written(kind, types, attrs), given=given)
    numbers = _numbers(
        "scatter",
        inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0],
        index_vector_dim=1,
    )
    types = f"200x{element}, {count}x{index}, {count}x{element} -> 200x{element}"
    attrs = f"scatter_dimension_numbers = {numbers}"
    signature = written(kind, types, attrs, combine("add", element))
    updates = given[0][: given[1].size]
    return Sample(f"far {index}", signature, given=(*given, updates))


@sample("scatter")
def scatter(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """As jax writes updates, each monoid and none; batches; several operands."""
    ids, rows, updates = np.zeros((6,), np.int32), np.zeros((6, 6)), np.zeros((4, 2))
    functions = {
        "add rows": (lambda x, i, u: x.at[i].add(u), _X, ids, rows),
        "set rows": (lambda x, i, u: x.at[i].set(u), _X, ids, rows),
        "max rows": (lambda x, i, u: x.at[i].max(u), _X, ids, rows),
        "min columns": (lambda x, i, u: x.at[:, i].min(u), _X, ids, rows[:4]),
        "multiply": (lambda x, i, u: x.at[i].mul(u), _X, ids, rows),
        "points": (lambda x, i, u: x.at[i, i].add(u), _X, ids, rows[0]),
        "per row": (jax.vmap(lambda x, i, u: x.at[i].add(u)), _X, _ROWS, updates),
        "set per row": (jax.vmap(lambda x, i, u: x.at[i].set(u)), _X, _ROWS, updates),
        "gradient of take_along_axis": (_take_along_axis_gradient, _X, _ROWS),
        "or": (lambda x, i: x.at[i].max(True), np.zeros(4, bool), ids),
    }
    yield from _from_jax(kind, functions)
    yield from _scatters_written(kind)
    yield from _far_indices(kind)
    yield from (_random_scatter(kind, rng) for _ in range(6))


def _take_along_axis_gradient(x: Any, ids: Any) -> Any:
    return jax.grad(lambda x: (jnp.take_along_axis(x, ids, 1) ** 2).sum())(x)


def _scatters_written(kind: str) -> Iterator[Sample]:
    first = _numbers(
        "scatter",
        update_window_dims=[1],
        inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0],
        index_vector_dim=0,
    )
    middle = _numbers(
        "scatter",
        update_window_dims=[0, 2],
        inserted_window_dims=[1],
        scatter_dims_to_operand_dims=[1, 2],
        index_vector_dim=1,
    )
    part = _numbers(
        "scatter",
        update_window_dims=[1, 2],
        scatter_dims_to_operand_dims=[0],
        index_vector_dim=1,
    )
    for types, numbers, dtype in (
        ("4x6xi32, 1x4xi32, 4x6xi32 -> 4x6xi32", first, "i32"),
        ("4x6xi32, 8x1xi32, 8x2x6xi32 -> 4x6xi32", part, "i32"),
        ("4x6x2xf64, 4x2x3xi32, 4x4x2x3xf64 -> 4x6x2xf64", middle, "f64"),
    ):
        attrs = f"scatter_dimension_numbers = {numbers}"
        yield Sample(types, written(kind, types, attrs, combine("add", dtype)))
    types = "4x6xi32, 4x6xi32, 1x4xi32, 4x6xi32, 4x6xi32 -> 4x6xi32, 4x6xi32"
    attrs = f"scatter_dimension_numbers = {first}"
    yield Sample("two operands", written(kind, types, attrs, _TWO_SUMS))


_TWO_SUMS = """{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
  %e = stablehlo.add %a, %c : tensor<i32>
  %f = stablehlo.add %b, %d : tensor<i32>
  "stablehlo.return"(%e, %f) : (tensor<i32>, tensor<i32>) -> () }"""


def _random_gather(kind: str, rng: np.random.Generator) -> Sample:
    made = random_lookup(rng)
    numbers = _numbers(
        "gather",
        offset_dims=made.offsets,
        collapsed_slice_dims=made.dims("collapsed"),
        operand_batching_dims=made.dims("batch"),
        start_indices_batching_dims=made.batch_positions,
        start_index_map=made.indexed,
        index_vector_dim=made.vector,
    )
    sizes = ", ".join(map(str, made.sizes))
    types = f"{made.operand}xi32, {made.indices}xi32 -> {made.looked_up}xi32"
    attrs = f"dimension_numbers = {numbers}, slice_sizes = array<i64: {sizes}>"
    return Sample(f"{types} {attrs}", written(kind, types, attrs))


def _random_scatter(kind: str, rng: np.random.Generator) -> Sample:
    made = random_lookup(rng)
    numbers = _numbers(
        "scatter",
        update_window_dims=made.offsets,
        inserted_window_dims=made.dims("collapsed"),
        input_batching_dims=made.dims("batch"),
        scatter_indices_batching_dims=made.batch_positions,
        scatter_dims_to_operand_dims=made.indexed,
        index_vector_dim=made.vector,
    )
    operand = f"{made.operand}xi32"
    types = f"{operand}, {made.indices}xi32, {made.looked_up}xi32 -> {operand}"
    attrs = f"scatter_dimension_numbers = {numbers}"
    op = str(rng.choice(["add", "maximum", "multiply", "subtract"]))
    region = combine(op, "i32")
    return Sample(f"{op} {types} {attrs}", written(kind, types, attrs, region))


@sample("dynamic_slice")
def dynamic_slice(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """A part of one dimension, of none, of two; one element; starts of all types."""
    for result, sizes, index in (
        ("2x6", "2, 6", "i32"),
        ("4x6", "4, 6", "i32"),
        ("1x3", "1, 3", "i64"),
        ("1x6", "1, 6", "ui8"),
        ("1x1", "1, 1", "ui32"),
    ):
        types = f"4x6xf64, {index}, {index} -> {result}xf64"
        attrs = f"slice_sizes = array<i64: {sizes}>"
        yield from _started(written(kind, types, attrs), 1)


@sample("dynamic_update_slice")
def dynamic_update_slice(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """A part of one dimension, of none, of two; one element; starts of all types."""
    for update, index in (
        ("3x6", "i32"),
        ("2x2", "i32"),
        ("1x4", "i32"),
        ("4x6", "i32"),
        ("1x3", "i64"),
        ("1x6", "ui8"),
        ("1x1", "ui32"),
    ):
        types = f"4x6xf64, {update}xf64, {index}, {index} -> 4x6xf64"
        yield from _started(written(kind, types), 2)


def _started(signature: Signature, first: int) -> Iterator[Sample]:
    """Starts within and beyond what they index."""
    rng = np.random.default_rng(0)
    values = [random_value(rng, t) for t in signature.operands[:first]]
    low = 0 if signature.operands[first].dtype.startswith("u") else -2
    for starts in ((0, 5), (3, 1), (low, 9)):
        dtype = numpy_dtype(signature.operands[first].dtype)
        given = (*values, *(np.array(s, dtype) for s in starts))
        yield Sample(f"{signature} {starts}", signature, given=given)


@sample("torch_index_select")
def torch_index_select(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """With and without a batch."""
    for types, dim, batch in (
        ("4x6x2xf64, 3xi32 -> 4x3x2xf64", 1, 0),
        ("2x4x6xf64, 2x3xi32 -> 2x4x3xf64", 2, 1),
        ("4x6xf64, 2x2xi32 -> 2x2x6xf64", 0, 0),
    ):
        attrs = f"dim = {dim} : i64, batch_dims = {batch} : i64"
        signature = written(kind, types, attrs)
        operand, index = signature.operands
        given = rng.normal(size=operand.shape), rng.integers(0, 4, index.shape)
        yield Sample(types, signature, given=(given[0], given[1].astype(np.int32)))
