"""What benchmarks read from compiled programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

from benchmarks.compiled_text import CompiledText

TEXT = """\
HloModule jit_step, is_scheduled=true

%scattered (p: f32[8,4]) -> f32[2,4] {
  %p = f32[8,4]{1,0} parameter(0)
  ROOT %reduce = f32[2,4]{1,0} reduce-scatter(%p), channel_id=7, replica_groups=[2,4]<=[8]
}

%body (c: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %c = (s32[], f32[8,4]{1,0}) parameter(0)
  %fused = f32[2,4]{1,0} fusion(%c), kind=kCustom, calls=%scattered, backend_config={"estimated_cycles":"30"}
}

%condition (c: (s32[], f32[8,4])) -> pred[] {
  %c.1 = (s32[], f32[8,4]{1,0}) parameter(0)
}

ENTRY %main (x: f32[2,4]) -> f32[8,4] {
  %x = f32[2,4]{1,0} parameter(0)
  %start = (f32[2,4]{1,0}, f32[8,4]{1,0}) all-gather-start(%x), channel_id=3, replica_groups={{0,1,2,3},{4,5,6,7}}
  %done = f32[8,4]{1,0} all-gather-done(%start), channel_id=3, backend_config={"estimated_cycles":"5"}
  %copied = f32[8,4]{0,1} copy(%done)
  %loop = (s32[], f32[8,4]{1,0}) while(%copied), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"6"}}
}
"""  # noqa: E501 - as compilers print it


def test_channels_count_once_and_loops_as_often_as_they_run() -> None:
    found = CompiledText(TEXT)
    assert found.collectives == {"all-gather": 1, "reduce-scatter": 6}
    # Each sends three of the four parts of eight rows of four floats.
    assert found.bytes_sent == 7 * 96
    assert found.cycles == 5 + 6 * 30
    assert found.copies == 1


def test_a_program_of_this_machine() -> None:
    def summed(x: Array) -> Array:
        def step(total: Array, _: None) -> tuple[Array, None]:
            return lax.psum(jnp.sin(total), "B"), None

        return lax.scan(step, x, length=5)[0]

    mesh = jax.make_mesh((8,), ("B",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.P("B")
    mapped = jax.shard_map(
        summed, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
    )
    text = jax.jit(mapped).lower(jnp.ones((16, 4))).compile().as_text()
    assert text is not None
    found = CompiledText(text)
    assert found.collectives == {"all-reduce": 5}
    assert found.bytes_sent == 5 * 2 * (2 * 4 * 4) * 7 / 8


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ("{{0,2},{1,3}}", 2),
        ("[2,4]<=[4,2]T(1,0)", 4),
        ("mesh['axis_0'=4,'axis_1'=2] {'axis_1'}", 2),
        ("mesh['axis_0'=4,'axis_1'=2], device_ids=([4,2]T(1,0)) {'axis_0'}", 4),
        ("mesh['axis_0'=4,'axis_1'=2] {'axis_0':(1)2,'axis_1'}", 4),
    ],
)
def test_groups_are_spelled_in_many_ways(groups: str, size: int) -> None:
    line = (
        f"%sum = f32[8]{{0}} all-reduce(%x), channel_id=1, replica_groups={groups}, use"
    )
    text = f"ENTRY %main (x: f32[8]) -> f32[8] {{\n  {line}\n}}\n"
    assert CompiledText(text).bytes_sent == 2 * 32 * (size - 1) / size
