"""What devices have that nobody sends anything: no bits, which may be a number."""

from __future__ import annotations

import pytest

from tests.verify.modules import (
    CHANNEL,
    Case,
    Tiling,
    all_reduce,
    function,
    is_proved,
    permute,
)

TILES: Tiling = (("B",),)


def shard_map(dtype: str) -> str:
    """The first tile is sent to the second device; what both have then is added up."""
    tile, whole = f"2x{dtype}", f"4x{dtype}"
    added = all_reduce("s", "sent", "add", tile)
    return f"""module {{
  sdy.mesh @mesh = <["B"=2]>
  func.func public @main(%x: tensor<{whole}>) -> tensor<{whole}> {{
    %r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"B"}}]>]
        out_shardings=[<@mesh, [{{"B"}}]>] manual_axes={{"B"}} (%a: tensor<{tile}>) {{
      {permute("sent", "a", [[0, 1]], tile)}
      {added}
      sdy.return %s : tensor<{tile}>
    }} : (tensor<{whole}>) -> tensor<{whole}>
    return %r : tensor<{whole}>
  }}
}}"""


def first_tile(dtype: str) -> str:
    """All devices have the first tile."""
    tile, whole = f"2x{dtype}", f"4x{dtype}"
    return function(
        {"a": tile},
        tile,
        f"""%g = "stablehlo.all_gather"(%a) {{all_gather_dim = 0 : i64,
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL},
        use_global_device_ids}} : (tensor<{tile}>) -> tensor<{whole}>""",
        f"%r = stablehlo.slice %g [0:2] : (tensor<{whole}>) -> tensor<{tile}>",
    )


@pytest.mark.parametrize("dtype", ["f32", "i32", "f8E8M0FNU"])
def test_a_sum_with_it(dtype: str) -> None:
    """Of the last type, no bits are its least number, which is not zero."""
    case = Case(shard_map(dtype), first_tile(dtype), [TILES], TILES)
    assert is_proved(case) == (dtype != "f8E8M0FNU")
