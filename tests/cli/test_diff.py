"""`partir diff`, `partir suggest` and tables by line: as text, as data, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.workspace import PARTITION, SCHEDULE, refusal, run

pytestmark = pytest.mark.usefixtures("folder")


def test_two_schedules(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    only = SCHEDULE.replace("schedule = [BP, MP]", "schedule = [BP]")
    (folder / "only.py").write_text(only)
    text = run(capfd, "diff", *PARTITION, "--against", "only.py")
    assert text.startswith("figure")
    assert "layout: params/w1: {_, M} -> whole" in text
    data = json.loads(run(capfd, "diff", *PARTITION, "--against", "only.py", "--json"))
    assert {one["cause"] for one in data["lost"]} == {"summed"}
    same = run(capfd, "diff", *PARTITION, "--against", "sched.py")
    assert same == "no difference\n"


def test_chosen_collectives(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "none.py").write_text("schedule = []\n")
    asked = ("diff", *PARTITION, "--against", "none.py", "--json")
    lost = json.loads(run(capfd, *asked))["lost"]
    largest = max(one["bytes"] for one in lost)
    few = json.loads(run(capfd, *asked, "--least", str(largest)))["lost"]
    assert 0 < len(few) < len(lost)
    assert json.loads(run(capfd, *asked, "--least", "1MiB"))["lost"] == []
    line = ("--line", f"model.py:{lost[0]['source']['line']}")
    here = json.loads(run(capfd, *asked, *line))["lost"]
    assert {one["source"]["line"] for one in here} == {lost[0]["source"]["line"]}


def test_two_meshes_and_devices(capfd: pytest.CaptureFixture[str]) -> None:
    text = run(capfd, "diff", *PARTITION, "--against-mesh", "B=2,M=4")
    assert "bytes_communicated" in text
    devices = ("--device", "tpu_v5e", "--against-device", "tpu_v5p", "--json")
    data = json.loads(run(capfd, "diff", *PARTITION, *devices))
    assert data["figures"]["seconds"][0] != data["figures"]["seconds"][1]


def test_suggestions(capfd: pytest.CaptureFixture[str]) -> None:
    asked = ("suggest", *PARTITION, "--device", "tpu_v5e", "--axis", "M", "-k", "2")
    data = json.loads(run(capfd, *asked, "--json"))
    assert 0 < len(data) <= 2
    assert data[0]["seconds"] > 0
    assert data[0]["tactic"] in run(capfd, *asked)
    assert "\npartir." in data[0]["tactic"]  # below its reason


def test_by_line_and_by_scope(capfd: pytest.CaptureFixture[str]) -> None:
    text = run(capfd, "show", *PARTITION, "--by", "source")
    assert "model.py:12" in text
    data = json.loads(run(capfd, "show", *PARTITION, "--by", "scope", "--json"))
    assert data["by_scope"]
    chosen = ("--by", "source", "--order", "flops", "--match", "**model.py:12")
    data = json.loads(run(capfd, "show", *PARTITION, *chosen, "--json"))
    assert [one["where"].endswith("model.py:12") for one in data["by_source"]] == [True]


def test_chosen_names(capfd: pytest.CaptureFixture[str]) -> None:
    chosen = ("show", *PARTITION, "--names", "--match", "params/**", "--json")
    names = [one["name"] for one in json.loads(run(capfd, *chosen))["names"]]
    assert names == ["params/w1", "params/w2"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("diff", *PARTITION), "diff needs something to compare with"),
        (("diff", *PARTITION, "--against", "none.py"), "can't read none.py"),
        (("diff", *PARTITION, "--against-mesh", "B4"), "can't read mesh 'B4'"),
        (("diff", *PARTITION, "--against-model", "no.mlir"), "no.mlir: can't be read"),
        (("diff", *PARTITION, "--against-device", "x9"), 'no device "x9"'),
        (("suggest", *PARTITION), "arguments are required: --axis"),
        (("suggest", *PARTITION, "--axis", "M"), "suggest needs --device"),
        (
            ("suggest", *PARTITION, "--axis", "Q", "--device", "a100"),
            "Q",
        ),
    ],
)
def test_refusals(
    capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    assert told in refusal(capfd, *arguments)
