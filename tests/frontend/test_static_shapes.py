"""Ops that take sizes as operands are read as static ones."""

from __future__ import annotations

import numpy as np
import pytest

import partir

PAD = """
    %v = stablehlo.constant dense<7.0> : tensor<f32>
    %l = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
    %z = stablehlo.constant dense<0> : tensor<2xi32>
    %y = stablehlo.dynamic_pad %x, %v, %l, %z, %z
      : (tensor<8x4xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>)
      -> tensor<8x5xf32>
    return %y : tensor<8x5xf32>"""
SLICE = """
    %l = stablehlo.constant dense<[0, 1]> : tensor<2xi64>
    %h = stablehlo.constant dense<[8, 4]> : tensor<2xi64>
    %s = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    %y = stablehlo.real_dynamic_slice %x, %l, %h, %s
      : (tensor<8x4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>)
      -> tensor<8x2xf32>
    return %y : tensor<8x2xf32>"""
GATHER = """
    %i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi32>
    %s = stablehlo.constant dense<[8, 1]> : tensor<2xi32>
    %y = "stablehlo.dynamic_gather"(%x, %i, %s) {
      dimension_numbers = #stablehlo.gather<offset_dims = [0],
        collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>
      } : (tensor<8x4xf32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<8x2xf32>
    return %y : tensor<8x2xf32>"""
CONVOLVE = """
    %k = stablehlo.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
    %p = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi32>
    %a = stablehlo.reshape %x : (tensor<8x4xf32>) -> tensor<8x4x1xf32>
    %b = "stablehlo.dynamic_conv"(%a, %k, %p) {
      dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
      feature_group_count = 1 : i64, batch_group_count = 1 : i64
      } : (tensor<8x4x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<8x4x1xf32>
    %y = stablehlo.reshape %b : (tensor<8x4x1xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>"""
X = np.arange(32, dtype=np.float32).reshape(8, 4)
WHOLE = np.pad(X, ((0, 0), (1, 0)))
CASES = {
    "pad": (PAD, np.pad(X, ((0, 0), (1, 0)), constant_values=7)),
    "slice": (SLICE, X[:, 1:4:2]),
    "gather": (GATHER, X[:, [2, 0]]),
    "convolution": (CONVOLVE, WHOLE[:, :-1] + 2 * X),
}


@pytest.mark.parametrize("kind", CASES)
def test_read_as_static(kind: str) -> None:
    body, expected = CASES[kind]
    result = body.rpartition(" : ")[2]
    text = f"func.func @main(%x: tensor<8x4xf32>) -> {result} {{{body}\n}}"
    program = partir.load(text)
    assert f"stablehlo.{kind}" in {op.kind for op in program.ops}
    rows = partir.ManualPartition({"arg0": 0}, axis="B", name="rows")
    record = partir.partition(program, {"B": 4}, [rows], strict=True)
    assert not sum(record.collectives.values())
    np.testing.assert_array_equal(record.compile()(X)[0], expected)
