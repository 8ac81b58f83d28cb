"""Modules that are the program of one device already are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, PartitionSpec as P

import partir
from tests.refusals import message

GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
SUM = """({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32> })"""
SAME = "(tensor<8x4xf32>) -> tensor<8x4xf32>"
GATHERED = "(tensor<8x4xf32>) -> tensor<16x4xf32>"
SCATTERED = "(tensor<8x4xf32>) -> tensor<4x4xf32>"

OPS = {
    "partition_id": "stablehlo.partition_id : tensor<ui32>",
    "replica_id": "stablehlo.replica_id : tensor<ui32>",
    "all_gather": f'"stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64, {GROUPS}}}'
    f" : {GATHERED}",
    "all_reduce": f'"stablehlo.all_reduce"(%x) {SUM} {{{GROUPS}}} : {SAME}',
    "reduce_scatter": f'"stablehlo.reduce_scatter"(%x) {SUM} '
    f"{{scatter_dimension = 0 : i64, {GROUPS}}} : {SCATTERED}",
    "all_to_all": '"stablehlo.all_to_all"(%x) {split_dimension = 0 : i64, '
    f"concat_dimension = 0 : i64, split_count = 2 : i64, {GROUPS}}} : {SAME}",
    "collective_permute": '"stablehlo.collective_permute"(%x) '
    f"{{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}} : {SAME}",
    "collective_broadcast": f'"stablehlo.collective_broadcast"(%x) {{{GROUPS}}}'
    f" : {SAME}",
    "cross-replica-sum": f'"stablehlo.cross-replica-sum"(%x) {{{GROUPS}}} : {SAME}',
    "send": '"stablehlo.send"(%x, %t) '
    f"{{{CHANNEL}, is_host_transfer = false}} : "
    "(tensor<8x4xf32>, !stablehlo.token) -> !stablehlo.token",
    "recv": f'"stablehlo.recv"(%t) {{{CHANNEL}, is_host_transfer = false}} : '
    "(!stablehlo.token) -> (tensor<8x4xf32>, !stablehlo.token)",
}


def module(op: str) -> str:
    left = "%0:2" if "recv" in op else "%0"
    return f"""module {{
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {{
    %y = func.call @inner(%x) : {SAME}
    return %y : tensor<8x4xf32>
  }}
  func.func private @inner(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {{
    %t = stablehlo.create_token : !stablehlo.token
    {left} = {op}
    return %x : tensor<8x4xf32>
  }}
}}"""


@pytest.mark.parametrize("name", OPS)
def test_an_op_that_means_something_on_one_device_only(name: str) -> None:
    assert message(lambda: partir.load(module(OPS[name]))) == (
        f"the module is the program of one device already: it holds stablehlo.{name} "
        "at line 8, outside of any shard_map. partir takes whole programs: load the "
        "module as it was before it was partitioned, for example "
        "jax.jit(fn).lower(...).as_text(), and leave what is written per device inside "
        "jax.shard_map"
    )


def test_in_a_loop_or_a_function_that_a_call_names() -> None:
    index = "%p = stablehlo.partition_id : tensor<ui32>"
    loop = f"""func.func @main(%x: tensor<i1>) -> tensor<i1> {{
      %0 = stablehlo.while(%a = %x) : tensor<i1>
        cond {{ stablehlo.return %a : tensor<i1> }}
        do {{ {index}
          %b = stablehlo.not %a : tensor<i1>
          stablehlo.return %b : tensor<i1> }}
      return %0 : tensor<i1> }}"""
    called = f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = stablehlo.custom_call @f(%x) {{called_computations = [@g]}}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }}
    func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {{
      {index}
      return %x : tensor<4xf32> }}"""
    assert "stablehlo.partition_id at line 4" in message(lambda: partir.load(loop))
    assert "stablehlo.custom_call at line 2" in message(lambda: partir.load(called))


def test_a_transfer_to_the_host_is_none() -> None:
    host = OPS["send"].replace("type = 1", "type = 2").replace("false", "true")
    assert partir.load(module(host)).ops[1].kind == "stablehlo.send"


def test_a_shard_map_may_hold_all_of_them() -> None:
    def local(x: Any) -> Any:
        return jax.lax.psum(x * jax.lax.axis_index("B"), "B")

    mesh = jax.make_mesh((2,), ("B",), axis_types=(AxisType.Auto,))
    fn = jax.shard_map(local, mesh=mesh, in_specs=P("B"), out_specs=P())
    text = jax.jit(fn).lower(jnp.ones(4)).as_text()
    assert "stablehlo.all_reduce" in text
    assert len(partir.partition(partir.load(text), {"B": 2}, []).steps) == 1


def exported(mesh: dict[str, int]) -> partir.Partitioned:
    """Of a program that needs no collective."""
    rows = partir.ManualPartition({"x": 0}, axis="B")
    x = jax.ShapeDtypeStruct((8, 4), "float32")
    return partir.partition(lambda x: jnp.sin(x), mesh, [rows], args=(x,))


def test_what_partir_itself_exported(tmp_path: Path) -> None:
    partitioned = exported({"B": 4, "M": 2})
    assert not any(partitioned.collectives.values())
    path = tmp_path / "local.mlir"
    path.write_bytes(partitioned.stablehlo_bytecode())
    said = (
        "the module is what partir exported for each device of mesh B=4,M=2, not a "
        "whole program: partition the program that it was made from"
    )
    assert message(lambda: partir.load(partitioned.stablehlo())) == said
    assert message(lambda: partir.load(path)) == f"{path}: {said}"


def test_a_mesh_of_one_device_runs_the_whole_program() -> None:
    assert partir.load(exported({"B": 1}).stablehlo()).ops[0].kind == "stablehlo.sine"


REORDERED = """module {
  sdy.mesh @mesh = <["B"=2], device_ids=[1, 0]>
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"B"}]>]
        out_shardings=[<@mesh, [{"B"}]>] manual_axes={"B"} (%a: tensor<2xf32>) {
      %id = stablehlo.partition_id : tensor<ui32>
      %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
      %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %c = stablehlo.add %a, %b : tensor<2xf32>
      sdy.return %c : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"""


def test_a_shard_map_over_reordered_devices_is_refused() -> None:
    """Its devices' numbers are not those of their places."""
    with pytest.raises(partir.PartitionError, match="not in their order"):
        partir.load(REORDERED)
    assert partir.load(REORDERED.replace(", device_ids=[1, 0]", ""))
