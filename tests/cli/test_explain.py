"""`partir explain`: answers and lists as text and as data, and what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.cli.workspace import PARTITION, refusal, run

pytestmark = pytest.mark.usefixtures("folder")
EXPLAIN = ("explain", *PARTITION)


def test_a_value(capfd: pytest.CaptureFixture[str]) -> None:
    said = run(capfd, *EXPLAIN, "params/w2")
    assert said.startswith('params/w2: tiled on dimension 0 over "M" of size 2')
    assert 'tactic "MP" asks for it' in said
    assert "model.py:12" in said


def test_as_data_without_remedies(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ("all_reduce#0", "--json", "--no-remedies")
    said = json.loads(run(capfd, *EXPLAIN, *arguments))
    assert said["cause"] == "summed"
    assert said["cost"]["bytes"] > 0
    assert "remedies" not in said


def test_the_list_and_its_filters(capfd: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(run(capfd, *EXPLAIN, "--json"))
    assert [one["bytes"] for one in listed] == sorted(
        (one["bytes"] for one in listed), reverse=True
    )
    assert {one["kind"] for one in listed} == {"all_reduce"}
    many = json.loads(run(capfd, *EXPLAIN, "--json", "--least", "100"))
    assert 0 < len(many) < len(listed)
    line = json.loads(run(capfd, *EXPLAIN, "--json", "--line", "model.py:13"))
    assert {one["source"]["line"] for one in line} == {13}
    assert run(capfd, *EXPLAIN, "--kind", "all_gather") == "no collectives\n"
    assert "all_reduce#0" in run(capfd, *EXPLAIN)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("params/w3",), 'explain: "params/w3" is no argument, tag or result'),
        (("all_gather#7",), 'explain: there is no "all_gather#7"'),
        (("model.py:1",), "nothing is computed on model.py:1; nearest lines: "),
        (("other.py:1",), "no op comes from other.py"),
        (("x", "--axis", "Q"), "Q"),
        (("--line", "model"), "--line is written as model.py:42, got 'model'"),
    ],
)
def test_refusals(
    capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    assert told in refusal(capfd, *EXPLAIN, *arguments)
