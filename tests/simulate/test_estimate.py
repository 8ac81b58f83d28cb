"""The public face: estimates after every tactic, the table, the timeline."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jax
import pytest

import partir
from tests.simulate import models

pytestmark = pytest.mark.quick


def test_every_step_has_an_estimate() -> None:
    done = models.partitioned(schedule=(models.BATCH, models.MODEL))
    first, second = (step.estimate for step in done.steps)
    assert done.estimate is second
    assert first.peak_bytes > second.peak_bytes
    assert 0 < first.mfu < 1
    for found in (first, second):
        assert found.seconds > 0
        assert found.flops > 0
        assert found.compute_seconds > 0
        assert found.communication_seconds > 0


def test_no_device_lists_the_names() -> None:
    done = models.partitioned(device=None)
    with pytest.raises(partir.PartitionError, match=r"needs a device: .*tpu_v5e"):
        _ = done.estimate
    assert done.estimate_on("h100").device.name == "h100"


@pytest.mark.parametrize("device", ["tpu_v99", 3, object()])
def test_unknown_device(device: Any) -> None:
    with pytest.raises(partir.PartitionError, match="device"):
        models.partitioned(device=device)


def test_a_mesh_that_cannot_sit_is_refused_at_once() -> None:
    spec = partir.DeviceSpec(
        name="small",
        flops_per_s=1e12,
        memory_bytes=1e9,
        memory_bytes_per_s=1e11,
        link_bytes_per_s=1e9,
        node_size=4,
    )
    with pytest.raises(partir.PartitionError, match="does not fit small"):
        models.partitioned(device=spec)


def test_jit_takes_a_device() -> None:
    step = partir.jit(models.step, models.MESH, [models.BATCH], device="a100")
    assert step.partitioned(*models.args()).estimate.device.name == "a100"


def test_tactics_can_ask() -> None:
    seen: list[float] = []

    class Ask:
        name = "ask"

        def apply(self, partition: partir.Partition) -> None:
            seen.append(partition.estimate("h100").seconds)
            partition.tile("x", 0, "B")
            partition.propagate()
            seen.append(partition.estimate().seconds)

    models.partitioned(schedule=[Ask()])
    assert len(seen) == 2


def test_table() -> None:
    text = str(models.partitioned())
    head = "step time  change  compute  communication  peak memory  change  fits  MFU"
    (line,) = [one for one in text.splitlines() if one.startswith("on tpu_v5e")]
    assert line.split() == f"on tpu_v5e {head}".split()
    rows = text.splitlines()[-2:]
    assert rows[0].startswith("BP")
    assert "%" in rows[1]
    assert "on tpu_v5e" not in str(models.partitioned(device=None))


def test_timeline() -> None:
    found = models.partitioned().estimate
    assert {event.stream for event in found.timeline} == {"compute", "communication"}
    ends: dict[str, float] = {}
    for event in sorted(found.timeline, key=lambda event: event.start):
        assert event.start >= ends.get(event.stream, 0.0) - 1e-12
        ends[event.stream] = event.start + event.seconds
    assert max(ends.values()) == pytest.approx(found.seconds)


def test_perfetto() -> None:
    done = models.partitioned(models.looped(3))
    data = json.loads(done.estimate.perfetto())
    assert data["displayTimeUnit"] in ("ms", "ns")
    named = {e["tid"] for e in data["traceEvents"] if e["name"] == "thread_name"}
    assert {e["ph"] for e in data["traceEvents"]} == {"M", "X"}
    events = [event for event in data["traceEvents"] if event["ph"] == "X"]
    assert events
    assert {type(event[k]) for event in events for k in ("pid", "tid")} == {int}
    assert {event["tid"] for event in events} <= named
    for event in events:
        assert event["dur"] > 0
        assert event["ts"] >= 0
        assert event["args"]["source"]
        assert {"name", "pid", "tid", "cat"} <= event.keys()
    names = [event["name"] for event in events]
    assert "while" in names
    assert "all_reduce {M}" in names
    outer = next(event for event in events if event["name"] == "while")
    inner = events[events.index(outer) + 1]
    assert outer["ts"] <= inner["ts"] <= outer["ts"] + outer["dur"]


def test_data_is_json() -> None:
    data = json.loads(json.dumps(models.partitioned().estimate.to_json()))
    assert data["device"] == "tpu_v5e"
    assert data["fits"] is True


def test_repr_shows_the_figures() -> None:
    assert "MFU" in repr(models.partitioned().estimate)


def test_negative_trip_count() -> None:
    with pytest.raises(partir.PartitionError, match="trip_count"):
        models.partitioned().estimate_on(trip_count=-1)


def test_a_large_mesh_needs_no_devices() -> None:
    batch = jax.ShapeDtypeStruct((65536, 64), "float32")
    params, _ = models.args()
    done = models.partitioned(
        mesh={"B": 32768, "M": 2}, args=(params, batch), device="tpu_v5e"
    )
    assert done.estimate.seconds > 0


def test_what_is_sent_together_meets_once() -> None:
    """Both gradients are scattered as one: the second starts with the first."""
    cpu = partir.devices["cpu"]
    apart = replace(cpu, export=replace(cpu.export, name="", moves_together=False))
    small = models.args(width=16, hidden=32)
    done = models.partitioned(
        schedule=(models.BATCH, models.SHARDED), device="cpu", args=small
    )
    assert done.collectives["reduce_scatter"] == 2
    each, together = (
        done.estimate_on(device).communication_seconds for device in (apart, cpu)
    )
    saved = (each - together) / cpu.collective_seconds
    gathers = done.collectives["all_gather"]
    most = 1 + gathers - 2  # gathers: one each way
    assert 0.9 * most < saved < most  # but for copies of small values
