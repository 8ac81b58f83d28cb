"""Rules, a line each: the op as it is written in StableHLO and its factors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import partir.rules  # noqa: F401  (registers every family)
from partir.rules import registry
from partir.rules.factor import Factor
from partir.rules.nest import nest_of
from partir.rules.registry import factors_of, rule_text
from tests.rules.samples.sample import combine, traced, written

_ADD = combine("add", "f32")
_LESS = """{ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
  %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
  "stablehlo.return"(%z) : (tensor<i1>) -> () }"""

# Padded to keep the size; with groups of features and of batches to fill in.
_CONVOLUTION = (
    "dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, "
    "padding = dense<{0}> : tensor<1x2xi64>, feature_group_count = {1} : i64, "
    "batch_group_count = {2} : i64"
)


# Kind, types, attributes, region, rule. In alphabetical order.
WRITTEN = [
    ("add", "4x6xf32, 4x6xf32 -> 4x6xf32", "", "", "(a, b), (a, b) -> (a, b)"),
    ("add", "f32, f32 -> f32", "", "", "(), () -> ()"),
    (
        "batch_norm_training",
        "4x6xf32, 6xf32, 6xf32 -> 4x6xf32, 6xf32, 6xf32",
        "epsilon = 0.01 : f32, feature_index = 1 : i64",
        "",
        "(_, a), (a), (a) -> (_, a), (a), (a)",
    ),
    ("bitcast_convert", "4x6xf32 -> 4x6x4xi8", "", "", "(a, b) -> (a, b, _)"),
    ("bitcast_convert", "4x6x2xf32 -> 4x6xf64", "", "", "(a, b, _) -> (a, b)"),
    (
        "broadcast_in_dim",
        "6x1xf32 -> 4x6x3xf32",
        "broadcast_dimensions = array<i64: 1, 2>",
        "",
        "(b, _) -> (a, b, c)",
    ),
    (
        "cholesky",
        "4x3x3xf32 -> 4x3x3xf32",
        "lower = true",
        "",
        "(a, _, _) -> (a, _, _)",
    ),
    (
        "chlo.broadcast_add",
        "4x6xf32, 6xf32 -> 4x6xf32",
        "",
        "",
        "(a, b), (b) -> (a, b)",
    ),
    (
        "chlo.ragged_dot",
        "8x4xf32, 2x4x6xf32, 2xi32 -> 8x6xf32",
        "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], "
        "rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], "
        "rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], "
        "rhs_group_dimensions = [0]>",
        "",
        "(a, c), (d, c, b), (_) -> (a, b) sum=c sum=d",
    ),
    (
        "chlo.top_k",
        "4x6xf32 -> 4x2xf32, 4x2xi32",
        "k = 2 : i64",
        "",
        "(a, b) -> (a, _), (a, _) join=b",
    ),
    ("clamp", "f32, 4xf32, f32 -> 4xf32", "", "", "(), (a), () -> (a)"),
    (
        "concatenate",
        "4x6xf32, 4x2xf32 -> 4x8xf32",
        "dimension = 1 : i64",
        "",
        "(a, ~b), (a, _) -> (a, b)",
    ),
    (
        "constant",
        "-> 4x6xf32",
        "value = dense<1.0> : tensor<4x6xf32>",
        "",
        " -> (a, b)",
    ),
    (
        "convolution",
        "8x6x4xf32, 3x4x2xf32 -> 8x6x2xf32",
        _CONVOLUTION.format(1, 1, 1),
        "",
        "(a, ~d, c), (e, c, b) -> (a, d, b) sum=c sum=e",
    ),
    (
        "convolution",
        "8x6x4xf32, 3x2x6xf32 -> 8x6x6xf32",
        _CONVOLUTION.format(1, 2, 1),
        "",
        "(a, ~c, b), (d, _, b) -> (a, c, b) sum=d",
    ),
    (
        "convolution",
        "8x6x4xf32, 3x4x6xf32 -> 4x6x6xf32",
        _CONVOLUTION.format(1, 1, 2),
        "",
        "(a, ~c, b), (d, b, a) -> (_, c, a) sum=b sum=d",
    ),
    (
        "dot_general",
        "2x4x3xf32, 2x3x6xf32 -> 2x4x6xf32",
        "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], "
        "rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], "
        "rhs_contracting_dimensions = [1]>",
        "",
        "(a, b, d), (a, d, c) -> (a, b, c) sum=d",
    ),
    (
        "dynamic_slice",
        "4x6xf32, i32, i32 -> 1x6xf32",
        "slice_sizes = array<i64: 1, 6>",
        "",
        "(a, b), (), () -> (_, b) sum=a",
    ),
    (
        "dynamic_update_slice",
        "4x6xf32, 1x6xf32, i32, i32 -> 4x6xf32",
        "",
        "",
        "(a, b), (_, b), (), () -> (a, b)",
    ),
    (
        "fft",
        "4x6xcomplex<f32> -> 4x6xcomplex<f32>",
        "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 6>",
        "",
        "(a, _) -> (a, _)",
    ),
    (
        "gather",
        "8x6xf32, 4x3x1xi32 -> 4x3x6xf32",
        "slice_sizes = array<i64: 1, 6>, dimension_numbers = #stablehlo.gather<"
        "offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 2>",
        "",
        "(d, c), (a, b, _) -> (a, b, c) sum=d",
    ),
    (
        "gather",
        "8x6xf32, 1x4xi32 -> 4x6xf32",
        "slice_sizes = array<i64: 1, 6>, dimension_numbers = #stablehlo.gather<"
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 0>",
        "",
        "(c, b), (_, a) -> (a, b) sum=c",
    ),
    (
        "get_dimension_size",
        "4x6xf32 -> i32",
        "dimension = 1 : i64",
        "",
        "(a, b) -> ()",
    ),
    ("iota", "-> 4x6xi32", "iota_dimension = 0 : i64", "", " -> (a, b)"),
    (
        "pad",
        "4x6xf32, f32 -> 4x8xf32",
        "edge_padding_low = array<i64: 0, 1>, edge_padding_high = array<i64: 0, 1>, "
        "interior_padding = array<i64: 0, 0>",
        "",
        "(a, ~b), () -> (a, b)",
    ),
    (
        "reduce",
        "4x6x2xf32, f32 -> 4x2xf32",
        "dimensions = array<i64: 1>",
        _ADD,
        "(a, b, c), () -> (a, c) sum=b",
    ),
    (
        "reduce",
        "4x6xf32, f32 -> f32",
        "dimensions = array<i64: 0, 1>",
        combine("maximum", "f32"),
        "(a, b), () -> () max=a max=b",
    ),
    (
        "reduce",
        "4x6xf32, f32 -> 4xf32",
        "dimensions = array<i64: 1>",
        combine("subtract", "f32"),
        "(a, _), () -> (a)",
    ),
    (
        "reduce_window",
        "4x6xf32, f32 -> 4x3xf32",
        "window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>",
        _ADD,
        "(a, b), () -> (a, b)",
    ),
    (
        "reduce_window",
        "4x6xf32, f32 -> 4x5xf32",
        "window_dimensions = array<i64: 1, 2>",
        _ADD,
        "(a, ~b), () -> (a, b)",
    ),
    (
        "reduce_window",
        "4x6xf32, f32 -> 4x1xf32",
        "window_dimensions = array<i64: 1, 6>",
        _ADD,
        "(a, b), () -> (a, _) sum=b",
    ),
    ("reshape", "4x6xf32 -> 24xf32", "", "", "(a, _) -> (a)"),
    ("reshape", "24x3xf32 -> 4x6x3xf32", "", "", "(a, b) -> (a, _, b)"),
    ("reshape", "1x4x6xf32 -> 4x1x6xf32", "", "", "(_, a, b) -> (a, _, b)"),
    ("reshape", "4x9xf32 -> 9x4xf32", "", "", "(_, _) -> (_, _)"),
    (
        "reverse",
        "4x6xf32 -> 4x6xf32",
        "dimensions = array<i64: 1>",
        "",
        "(a, ~b) -> (a, b)",
    ),
    (
        "rng_bit_generator",
        "2xui64 -> 2xui64, 4x6xui32",
        "rng_algorithm = #stablehlo<rng_algorithm DEFAULT>",
        "",
        "(_) -> (_), (a, b)",
    ),
    (
        "scatter",
        "8x6xf32, 4x1xi32, 4x6xf32 -> 8x6xf32",
        "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        "index_vector_dim = 1>",
        _ADD,
        "(c, b), (a, _), (a, b) -> (c, b) sum=a",
    ),
    ("select", "i1, 4xf32, 4xf32 -> 4xf32", "", "", "(), (a), (a) -> (a)"),
    (
        "slice",
        "4x6xf32 -> 4x2xf32",
        "start_indices = array<i64: 0, 1>, limit_indices = array<i64: 4, 3>, "
        "strides = array<i64: 1, 1>",
        "",
        "(a, ~b) -> (a, b)",
    ),
    (
        "slice",
        "4x6xf32 -> 1x3xf32",
        "start_indices = array<i64: 3, 1>, limit_indices = array<i64: 4, 6>, "
        "strides = array<i64: 1, 2>",
        "",
        "(a, b) -> (_, b) sum=a",
    ),
    (
        "sort",
        "4x6xf32 -> 4x6xf32",
        "dimension = 1 : i64, is_stable = true",
        _LESS,
        "(a, _) -> (a, _)",
    ),
    (
        "transpose",
        "4x6x2xf32 -> 2x4x6xf32",
        "permutation = array<i64: 2, 0, 1>",
        "",
        "(b, c, a) -> (a, b, c)",
    ),
    (
        "triangular_solve",
        "4x3x3xf32, 4x3x6xf32 -> 4x3x6xf32",
        "left_side = true, lower = true, unit_diagonal = false, "
        "transpose_a = #stablehlo<transpose NO_TRANSPOSE>",
        "",
        "(a, _, _), (a, _, b) -> (a, _, b)",
    ),
]


UNWRITTEN = {"manual", "reshape", "rng", "tie"}  # no factors, or as many as there are


def test_every_rule_says_its_notation() -> None:
    """What a rule gives is read in its docstring."""
    texts = {f.__name__: f.__doc__ or "" for f in registry._rules.values()}
    silent = {name for name, text in texts.items() if "->" not in text}
    assert silent == UNWRITTEN


@pytest.mark.parametrize(("kind", "types", "attrs", "region", "rule"), WRITTEN)
def test_rule(kind: str, types: str, attrs: str, region: str, rule: str) -> None:
    kind = kind if "." in kind else f"stablehlo.{kind}"
    assert rule_text(written(kind, types, attrs, region)) == rule


_X, _ROWS, _IDS = np.ones((4, 6)), np.ones((4, 2), np.int32), np.ones((8,), np.int32)

# Kind, function, arguments, rules of all its ops of this kind.
TRACED = [
    (
        "gather",
        lambda x, i: jnp.take_along_axis(x, i, 1),
        (_X, _ROWS),
        ["(a, c), (a, b, _) -> (a, b) sum=c"],
    ),
    (
        "scatter",
        lambda x, i: jax.grad(lambda x: jnp.take_along_axis(x, i, 1).sum())(x),
        (_X, _ROWS),
        ["(a, c), (a, b, _), (a, b) -> (a, c) sum=b"],
    ),
    (
        "scatter",
        lambda x, i: x.at[i].set(0.0),
        (_X, _IDS),
        ["(b, a), (_, _), (_, a) -> (b, a)"],
    ),
    (
        "scatter",
        lambda x, i: x.at[i].max(0.0),
        (_X, _IDS),
        ["(c, b), (a, _), (a, b) -> (c, b) max=a"],
    ),
    (
        "reduce",
        lambda x: jnp.argmax(x, axis=1),
        (_X,),
        ["(a, b), (a, b), (), () -> (a), (a) join=b"],
    ),
    (
        "dot_general",
        lambda x, y: jnp.einsum("ij,kj->ki", x, y),
        (_X, _X),
        ["(a, c), (b, c) -> (a, b) sum=c"],
    ),
]


@pytest.mark.parametrize(("kind", "function", "args", "rules"), TRACED)
def test_rule_of_what_jax_emits(kind, function, args, rules) -> None:
    assert [rule_text(s) for s in traced(f"stablehlo.{kind}", function, *args)] == rules


def test_a_reshape_is_asked_again_inside_its_loops() -> None:
    """The minor dimension of a merge is exact once the major one is fully tiled."""
    nest = nest_of(written("stablehlo.reshape", "2x6xf32 -> 12xf32"))
    assert [f.operands for f in nest.factors] == [(0,)]
    inner = nest.inside("B", 2, 0)
    assert inner.factors == (Factor(6, (1,), (0,), loose=True),)
    assert inner.inside("M", 3, 0).gives == ((("B", "M"),),)


def test_once_operands_are_named() -> None:
    types, attrs = "4x6xf32, f32 -> 4xf32", "dimensions = array<i64: 1>"
    summed = factors_of(written("stablehlo.reduce", types, attrs, _ADD))[1]
    assert summed == Factor(6, (1, None), (None,), "sum", once=(1,), loose=True)


def test_factors_of_size_one_are_left_out() -> None:
    assert factors_of(written("stablehlo.negate", "1x4xf32 -> 1x4xf32")) == (
        Factor(4, (1,), (1,), loose=True),
    )
