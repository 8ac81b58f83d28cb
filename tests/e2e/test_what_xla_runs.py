"""What XLA runs, beside what it was given."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.execute.xla_program import XlaProgram, executed_collectives
from tests.explain.programs import f32

MESH = {"B": 4, "M": 2}
BP = partir.ManualPartition({"x": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"params/up": 1}, axis="M", name="MP")
PARAMS = {"up": f32(64, 128), "down": f32(128, 64)}


def step(params: Any, x: Any) -> Any:
    def body(carry: Any, _: Any) -> Any:
        return jnp.tanh(carry @ params["up"]) @ params["down"], None

    return jax.lax.scan(body, x, None, length=3)[0]


@pytest.fixture(scope="module")
def partitioned() -> partir.Partitioned:
    args = PARAMS, f32(32, 64)
    return partir.partition(step, MESH, [BP, MP], args=args, device="tpu_v5e")


def test_figures_stand_beside_ours(partitioned: partir.Partitioned) -> None:
    found = partitioned.what_xla_runs()
    assert found.collectives == {"all_reduce": 3}
    assert found.ours["all_reduce"] == 3
    assert found.added == {}
    estimate = partitioned.estimate
    assert found.argument_bytes == estimate.argument_bytes
    assert found.result_bytes == estimate.result_bytes
    text = str(found)
    assert text.splitlines()[2].split() == ["all_reduce", "3", "3"]
    assert "temporary_bytes" in found._repr_html_()
    data = json.loads(json.dumps(found.to_json()))
    assert data["estimated"]["flops"] == estimate.flops


def test_what_is_added_is_told() -> None:
    text = """
%body (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %a = (f32[8]{0}, f32[8]{0}) all-gather-start(f32[8]{0} %x), channel_id=1
  ROOT %b = f32[8]{0} all-gather-done((f32[8]{0}, f32[8]{0}) %a), channel_id=1
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %c = f32[8]{0} all-reduce(f32[8]{0} %p), channel_id=2, to_apply=%add
  ROOT %w = f32[8]{0} while(f32[8]{0} %c), condition=%cond, body=%body, \
backend_config={"known_trip_count":{"n":"5"}}
}
"""
    assert executed_collectives(text) == {"all_gather": 5, "all_reduce": 1}


def test_temporaries_on_tpus_are_a_bound() -> None:
    """What is lost between them is counted twice there."""
    for platform, said in (("tpu", "up to 2.0 KiB"), ("cpu", "2.0 KiB")):
        made = XlaProgram(platform, {}, {}, 1024, 1024, 2048, 1.0)
        (row,) = [line for line in str(made).splitlines() if "temporary" in line]
        assert row.split(maxsplit=2)[2].strip() == said
