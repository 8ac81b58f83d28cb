"""What a device reads of another one is not what it has itself.

Values of a shard_map are one tensor, and each device has a row of it: to be made of the
same tensor is not to be made of the same row.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import partir
from partir.mesh import Mesh
from partir.verify import prove
from tests.verify.modules import (
    CHANNEL,
    all_reduce,
    compare,
    constant,
    function,
    permute,
    unary,
)


def source(fn: Any, mesh: dict[str, int], *shapes: tuple[Any, ...]) -> Any:
    args = [jax.ShapeDtypeStruct(shape, dtype) for *shape, dtype in shapes]
    return partir.partition(fn, mesh, [], args=args).program


def looked_up(x: Any, index: Any) -> Any:
    def local(x: Any, index: Any) -> Any:
        start = (index[0], jnp.int32(0))
        return lax.dynamic_slice(x, start, (1, 3), allow_negative_indices=False)

    ins = (P(), P("B"))
    return jax.shard_map(local, in_specs=ins, out_specs=P("B"), check_vma=False)(
        x, index
    )


def masked_row(masked_by: str) -> str:
    """A row of tiles of four; the mask is made of `%i`, or of another device's."""
    return function(
        {"x": "4x3xf32", "index": "1xi32"},
        "1x3xf32",
        "%id = stablehlo.partition_id : tensor<ui32>",
        "%number = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>",
        *(constant(f"n{n}", n, "i32") for n in (0, 2, 3, 4, 7)),
        "%a = stablehlo.divide %number, %n2 : tensor<i32>",
        "%first = stablehlo.multiply %a, %n4 : tensor<i32>",
        unary("given", "reshape", "index", "1xi32", "i32"),
        "%i = stablehlo.clamp %n0, %given, %n7 : tensor<i32>",
        permute("other", "i", [[0, 1], [1, 0], [2, 3], [3, 2]], "i32"),
        "%at = stablehlo.subtract %i, %first : tensor<i32>",
        f"%place = stablehlo.subtract %{masked_by}, %first : tensor<i32>",
        compare("low", "GE", "place", "n0", "i32"),
        compare("high", "LE", "place", "n3", "i32"),
        "%here = stablehlo.and %low, %high : tensor<i1>",
        "%row = stablehlo.dynamic_slice %x, %at, %n0, sizes = [1, 3] : "
        "(tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>",
        constant("z", "0.0", "1x3xf32"),
        "%part = stablehlo.select %here, %row, %z : tensor<i1>, tensor<1x3xf32>",
        all_reduce("r", "part", "add", "1x3xf32")
        .replace("[[0, 1]]", "[[0, 2], [1, 3]]")
        .replace("1x2xi64", "2x2xi64"),
    )


@pytest.mark.quick
def test_a_mask_of_another_devices_index() -> None:
    mesh = {"A": 2, "B": 2}
    program = source(looked_up, mesh, (8, 3, "float32"), (2, "int32"))
    given = [[("A",), ()], [("B",)]]
    for masked_by, right in (("i", True), ("other", False)):
        module = masked_row(masked_by)
        proof = prove(program, module, Mesh(mesh), given, [[("B",), ()]])
        assert bool(proof.proved) == right, masked_by


def largest(x: Any, start: Any) -> Any:
    def local(x: Any, start: Any) -> Any:
        found = lax.reduce(x, start[0, 0], lambda a, b: jnp.where(a > b, a, b), (0,))
        return found.reshape(1, 1)

    ins, out = (P(), P("B", "C")), P("B", "C")
    return jax.shard_map(local, in_specs=ins, out_specs=out, check_vma=False)(x, start)


def reduced(name: str, operand: str, start: str, rows: int) -> str:
    t = "tensor<f32>"
    return f"""%{name} = "stablehlo.reduce"(%{operand}, %{start}) ({{
    ^bb0(%p: {t}, %q: {t}):
      %more = stablehlo.compare GT, %p, %q, FLOAT : ({t}, {t}) -> tensor<i1>
      %pq = stablehlo.select %more, %p, %q : tensor<i1>, {t}
      stablehlo.return %pq : {t}
  }}) {{dimensions = array<i64: 0>}} : (tensor<{rows}xf32>, {t}) -> {t}"""


def reduced_twice(start: str) -> str:
    """Tiles reduced from `%own`, or from what device (c, b) has, and both tiles."""
    swapped = [
        [4 * a + 2 * b + c, 4 * a + 2 * c + b] for a, b, c in np.ndindex(2, 2, 2)
    ]
    return function(
        {"x": "4xf32", "s": "1x1xf32"},
        "1x1xf32",
        unary("own", "reshape", "s", "1x1xf32", "f32"),
        permute("other", "own", swapped, "f32"),
        reduced("tile", "x", start, 4),
        unary("t", "reshape", "tile", "f32", "1xf32"),
        f"""%both = "stablehlo.all_gather"(%t) {{all_gather_dim = 0 : i64, {CHANNEL},
    replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>,
    use_global_device_ids}} : (tensor<1xf32>) -> tensor<2xf32>""",
        reduced("all", "both", "own", 2),
        unary("r", "reshape", "all", "f32", "1x1xf32"),
    )


def test_tiles_reduced_from_what_another_device_has() -> None:
    mesh = {"A": 2, "B": 2, "C": 2}
    program = source(largest, mesh, (8, "float32"), (2, 2, "float32"))
    given, made = [[("A",)], [("B",), ("C",)]], [[("B",), ("C",)]]
    for start, right in (("own", True), ("other", False)):
        proof = prove(program, reduced_twice(start), Mesh(mesh), given, made)
        assert bool(proof.proved) == right, start
