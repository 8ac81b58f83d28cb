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


FUSED = """\
%all-reduce-scatter (input: f32[8,4]) -> f32[2,4] {
  %input = f32[8,4]{1,0} parameter(0)
  %sum = f32[8,4]{1,0} all-reduce(%input), channel_id=1, replica_groups=mesh['a'=4,'b'=2] {'a'}, to_apply=%add
  ROOT %part = f32[2,4]{1,0} dynamic-slice(%sum), dynamic_slice_sizes={2,4}
}

ENTRY %main (x: f32[8,4]) -> f32[2,4] {
  %x = f32[8,4]{1,0} parameter(0)
  %made = f32[2,4]{1,0} fusion(%x), kind=kCustom, calls=%all-reduce-scatter
  %one = (f32[2,4]{1,0}, f32[2,4]{1,0}) collective-permute-start(%made), channel_id=2
  ROOT %two = (f32[2,4]{1,0}, f32[2,4]{1,0}) collective-permute-start(%one), channel_id=2
}
"""  # noqa: E501 - as compilers print it


def test_a_fusion_that_scatters_what_it_reduces_is_a_reduce_scatter() -> None:
    found = CompiledText(FUSED)
    assert found.collectives == {"collective-permute": 2, "reduce-scatter": 1}
    assert found.bytes_sent == 8 * 4 * 4 * 3 / 4 + 2 * (2 * 4 * 4)


# As the compiler for TPUs prints a loop: no word of how often it runs.
LOOP = """\
%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%a, %b)
}

%condition (p: (s32[], f32[8])) -> pred[] {
  %limit = s32[]{:T(128)} constant(5)
  %p = (s32[], f32[8]) parameter(0)
  %counter = s32[] get-tuple-element(%p), index=0
  ROOT %less = pred[] compare(%counter, %limit), direction=LT, backend_config={}
}

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p.1 = (s32[], f32[8]) parameter(0)
  %x = f32[8] get-tuple-element(%p.1), index=1
  %sum.1 = f32[8] all-reduce(%x), channel_id=1, replica_groups={{0,1}}, to_apply=%add
  %c = f32[8] copy(%sum.1), backend_config={"estimated_cycles":"10"}
  ROOT %t = (s32[], f32[8]) tuple(%next, %c)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %begin = s32[]{:T(128)} constant(1)
  %moved = s32[]{:T(128)} copy(%begin)
  %x.1 = f32[8] parameter(0)
  %both = (s32[], f32[8]) tuple(%moved, %x.1)
  %loop = (s32[], f32[8]) while(%both), condition=%condition, body=%body
  ROOT %out = f32[8] get-tuple-element(%loop), index=1
}
"""


def test_a_loop_runs_from_where_its_counter_begins_to_its_condition() -> None:
    text = CompiledText(LOOP)
    assert text.collectives == {"all-reduce": 4}
    assert (text.bytes_sent, text.cycles) == (4 * 32.0, 40)


def test_what_a_loop_says_itself_goes_first() -> None:
    said = LOOP.replace(
        "body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}'
    )
    assert CompiledText(said).collectives == {"all-reduce": 7}


@pytest.mark.parametrize(
    "change",
    [
        ("direction=LT", "direction=GT"),
        ("constant(5)", "parameter(1)"),
        ("constant(1)", "parameter(1)"),
    ],
)
def test_a_loop_that_cannot_be_read_counts_once(change: tuple[str, str]) -> None:
    assert CompiledText(LOOP.replace(*change)).collectives == {"all-reduce": 1}
