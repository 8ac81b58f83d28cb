"""Chakra traces decode by their schema, and add up to the simulator's totals."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir import ManualPartition
from partir.report import chakra
from tests.explain.more_questions import MORE
from tests.explain.questions import QUESTIONS

SCHEMA = (Path(chakra.__file__).parent / "chakra.proto").read_text()


class Decoder:
    """Reads messages by a schema file: made from its text, knows no field by itself."""

    def __init__(self, schema: str) -> None:
        text = re.sub(r"//.*", "", schema)
        self.enums = set(re.findall(r"enum (\w+)", text))
        field = r"(repeated )?(\w+) (\w+) = (\d+);"
        self.messages = {
            name: {
                int(number): (kind, label, bool(repeated))
                for repeated, kind, label, number in re.findall(field, body)
            }
            for name, body in re.findall(r"message (\w+) \{(.*?)\}", text, re.DOTALL)
        }

    def message(self, name: str, data: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        place = 0
        while place < len(data):
            key, place = varint(data, place)
            kind, label, repeated = self.messages[name][key >> 3]
            values, place = self._values(kind, key & 7, data, place)
            if repeated:
                found.setdefault(label, []).extend(values)
            else:
                (found[label],) = values
        return found

    def _values(
        self, kind: str, wire: int, data: bytes, place: int
    ) -> tuple[list[Any], int]:
        if wire == 0:
            value, place = varint(data, place)
            return [bool(value) if kind == "bool" else value], place
        if wire == 1:
            assert kind == "double"
            return [struct.unpack("<d", data[place : place + 8])[0]], place + 8
        assert wire == 2
        length, place = varint(data, place)
        inner = data[place : place + length]
        assert len(inner) == length
        if kind == "string":
            return [inner.decode()], place + length
        if kind in self.messages:
            return [self.message(kind, inner)], place + length
        return [
            bool(v) if kind == "bool" else v for v in varints(inner)
        ], place + length


def varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def varints(data: bytes) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = varint(data, place)
        yield value


def nodes(data: bytes) -> list[dict[str, Any]]:
    decoder, place, found = Decoder(SCHEMA), 0, []
    while place < len(data):
        length, place = varint(data, place)
        kind = "Node" if found else "GlobalMetadata"
        found.append(decoder.message(kind, data[place : place + length]))
        place += length
    assert found[0]["version"]
    for node in found[1:]:
        values = {}
        for attribute in node.pop("attr"):
            name = attribute.pop("name")
            (values[name],) = attribute.values() or (0,)
        node.update(values)
    return found[1:]


def train(w: jax.Array, x: jax.Array) -> jax.Array:
    def body(total: jax.Array, batch: jax.Array) -> Any:
        return total + jax.grad(lambda w: jnp.sum(jnp.tanh(batch @ w)))(w), None

    total = jax.lax.scan(body, jnp.zeros_like(w), x)[0]
    return w - 0.1 * total - jnp.roll(w, 1, 0)


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, "float32")


@pytest.fixture(scope="module")
def step() -> partir.Partitioned:
    tiles = ManualPartition({"x": 1}, axis="B", name="BP")
    more = ManualPartition({"w": 0}, axis="M", name="MP")
    args = shape(64, 64), shape(8, 128, 64)
    return partir.partition(
        train, {"B": 4, "M": 2}, [tiles, more], args, device="tpu_v5e"
    )


def test_totals(step: partir.Partitioned) -> None:
    found = nodes(step.chakra().rank(0))
    estimate = step.estimate
    by_type = {kind: [n for n in found if n["type"] == kind] for kind in (4, 5, 6, 7)}
    computed = sum(node["seconds"] for node in by_type[4])
    assert computed == pytest.approx(estimate.compute_seconds)
    moved = sum(node["seconds"] for node in found) - computed
    assert moved == pytest.approx(estimate.communication_seconds)
    sent = sum(node["comm_size"] for node in (*by_type[5], *by_type[7]))
    assert sent == pytest.approx(estimate.cost.link_bytes)
    flops = sum(node.get("num_ops", 0) for node in found)
    assert flops == pytest.approx(estimate.cost.flops, rel=1e-3)
    micros = sum(node.get("duration_micros", 0) for node in found)
    assert micros == pytest.approx((computed + moved) * 1e6, abs=len(found))
    assert all(node["tensor_size"] for node in by_type[4])


def busiest(traces: chakra.ChakraTraces, ranks: int) -> tuple[float, float, float]:
    """Seconds of computing and of moving, and bytes: of each message, the longest.

    Ranks at an edge have fewer neighbours than the simulator counts.
    """
    most: dict[Any, list[float]] = {}
    computed = 0.0
    for rank in range(ranks):
        found, seen = nodes(traces.rank(rank)), Counter[Any]()
        computed = sum(node["seconds"] for node in found if node["type"] == 4)
        for node in found:
            if node["type"] != 4:
                key = node["type"] == 6, node.get("ids"), node.get("comm_tag")
                longest = most.setdefault((key[1:], seen[key]), [0.0, 0.0])
                seen[key] += 1
                longest[0] = max(longest[0], node["seconds"])
                longest[1] = max(longest[1], node["comm_size"] * (node["type"] != 6))
    return computed, sum(s for s, _ in most.values()), sum(b for _, b in most.values())


TITLES = (
    "a loss that is shifted by one asks the neighbours",
    "thirds of a fused projection do not lie on the tiles of its weight",
    "two heads of keys for four devices",
    "a stage hands on to the next",
    "a convolution along the height that is tiled",
    "weights are gathered again for each microbatch (marin#6304)",
    "tokens go to their experts (jax#34168)",
    "a cache tiled along the sequence is summed over (Enzyme-JAX#596)",
)


@pytest.mark.parametrize("title", TITLES)
def test_traces_of_many_programs_add_up(title: str) -> None:
    (one,) = (q for q in (*QUESTIONS, *MORE) if q.title == title)
    found = partir.partition(
        one.fn, one.mesh or {"A": 4}, one.schedule, args=one.args, device="tpu_v5p"
    )
    estimate = found.estimate
    computed, moved, sent = busiest(found.chakra(), found.mesh.size)
    assert computed == pytest.approx(estimate.compute_seconds)
    assert moved == pytest.approx(estimate.communication_seconds)
    assert sent == pytest.approx(estimate.cost.link_bytes)
    events = json.loads(estimate.perfetto())["traceEvents"]
    seconds = Counter[str]()
    for event in events:
        if event["ph"] == "X" and "args" in event and "loop" not in event["args"]:
            seconds[event["cat"]] += event["dur"] * event["args"]["times"] / 1e6
    assert seconds["compute"] == pytest.approx(estimate.compute_seconds)
    assert seconds["communication"] == pytest.approx(estimate.communication_seconds)


def test_a_permute_is_a_send_and_a_receive(step: partir.Partitioned) -> None:
    traces = step.chakra()
    sent, got = set(), set()
    for rank in range(8):
        for node in nodes(traces.rank(rank)):
            pair = node.get("comm_src"), node.get("comm_dst")
            if node["type"] == 5:
                assert pair[0] == rank
                sent.add(pair)
            elif node["type"] == 6:
                assert pair[1] == rank
                got.add(pair)
    assert sent
    assert sent == got


def test_groups_ids_and_order(step: partir.Partitioned) -> None:
    traces = step.chakra()
    ids = {use.id for use in step.collective_list}
    for rank in (0, 5):
        found = nodes(traces.rank(rank))
        assert [node["id"] for node in found] == list(range(1, len(found) + 1))
        for node in found:
            needs = [*node.get("data_deps", ()), *node.get("ctrl_deps", ())]
            assert all(before < node["id"] for before in needs)
            assert set(node.get("ids", "").split()) <= ids
            if node["type"] == 7:
                assert rank in traces.groups[node["pg_name"]]
                assert len(node["involved_dim"]["values"]) == 2
                assert node["is_cpu_op"] is False
    assert {one for n in found for one in n.get("ids", "").split()} == ids


def test_perfetto_adds_up_and_has_names(step: partir.Partitioned) -> None:
    events = json.loads(step.estimate.perfetto())["traceEvents"]
    named = [one for e in events for one in e.get("args", {}).get("ids", ())]
    assert sorted(named) == sorted(use.id for use in step.collective_list)
    last = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X")
    seconds = step.estimate.seconds - step.estimate.device.step_seconds
    assert last == pytest.approx(seconds * 1e6)


def test_layouts_as_data(step: partir.Partitioned) -> None:
    data = step.specs_json()
    assert data["mesh"] == {"B": 4, "M": 2}
    assert data["arguments"]["x"] == [[], ["B"], ["M"]]
    assert data["arguments"]["w"] == [["M"]]
