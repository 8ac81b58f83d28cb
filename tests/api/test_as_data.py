"""Partitions, estimates, schedules and searches as data and in notebooks."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

import partir
from tests.explain import programs as p

DATA = partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="<BP> & more")
MODEL = partir.ManualPartition({"params/layers/*/up": 1}, axis="M", name="MP")


def made(schedule: Any = (DATA, MODEL)) -> partir.Partitioned:
    return partir.partition(
        p.train_step,
        {"B": 4, "M": 2},
        schedule,
        args=p.TRAINING,
        device="tpu_v5p",
        carry={"out/0": "params", "out/1": "opt"},
    )


def parsed(page: str) -> ET.Element:
    """A page must be well-formed."""
    return ET.fromstring(f"<page>{page}</page>")


def test_a_partition_as_data() -> None:
    found = made()
    data = json.loads(json.dumps(found.to_json()))
    assert [step["name"] for step in data["steps"]] == ["<BP> & more", "MP"]
    assert data["steps"][1]["estimate"]["seconds"] == found.estimate.seconds
    assert "ManualPartition" in data["steps"][1]["tactic"]
    names = {one["name"]: one for one in data["names"]}
    assert names["params/layers/0/up"]["tiling"] == [[], ["M"]]
    assert names["hidden"]["kind"] == "tag"
    ids = [one["id"] for one in data["collectives"]]
    assert ids == [use.id for use in found.collective_list]
    assert "tile('x', 0, 'B')" in data["schedule"]
    largest = found.estimate.alive_at_peak[0]
    first = data["alive_at_peak"][0]
    assert (first["name"], first["bytes"]) == (largest.name, largest.bytes)
    sent = sum(one["bytes"] for one in data["by_source"])
    assert sent == found.bytes_communicated
    assert sent == sum(one["bytes"] for one in data["by_scope"])


def test_ops_computed_whole_as_data() -> None:
    rows = partir.ManualPartition({"x": 0}, axis="A", name="rows")
    args = p.f32(64, 64), p.f32(64, 64)
    found = partir.partition(p.long_signal, {"A": 4}, [rows], args=args)
    (first, *_) = json.loads(json.dumps(found.to_json()))["replicated_ops"]
    assert first["kind"] == "stablehlo.fft"
    assert first["source"]["line"] > 0
    assert first["text"] == str(found.replicated_ops[0])


def test_notebooks_show_tables() -> None:
    found = made()
    tables = parsed(found._repr_html_()).findall(".//table")
    assert len(tables) == 2
    assert len(tables[0].findall("tr")) == 3
    assert "<BP> & more" in "".join(tables[0].itertext())
    assert "MFU" in "".join(parsed(found.estimate._repr_html_()).itertext())
    assert "params/layers" in "".join(parsed(found.schedule()._repr_html_()).itertext())
    assert parsed(found.by_source()._repr_html_()).findall(".//tr")


def test_a_search_as_data_and_in_a_notebook() -> None:
    auto = partir.AutomaticPartition(("B", "M"), evaluations=10)
    assert "nothing is searched yet" in auto._repr_html_()
    found = made([auto])
    assert auto.result is not None
    data = json.loads(json.dumps(auto.to_json()))
    assert data["seconds"] == pytest.approx(found.estimate.seconds)
    assert data["history"][-1]["evaluations"] <= data["evaluations"]
    assert len(data["decisions"]) == len(data["tactics"]) == len(auto.found)
    text = "".join(parsed(auto._repr_html_()).itertext())
    assert auto.found[0].name in text
    assert auto.found[0].name in str(auto.result)
    assert "partitions tried" in str(auto.result)
