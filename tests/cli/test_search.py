"""`partir search`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partir.cli import main

pytestmark = pytest.mark.usefixtures("folder")


def test_search_writes_a_schedule_that_show_takes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ["model.py:train_step", "--mesh", "B=4", "--device", "a100"]
    budget = ["--evaluations", "20", "--memory-limit", "80"]
    assert main(["search", *said, *budget, "-o", "found.py"]) == 0
    out = capsys.readouterr().out
    assert "automatic over B" in out
    assert "partitions tried" in out
    assert (folder / "found.py").read_text().count("schedule = [") == 1
    assert main(["show", *said, "--schedule", "found.py"]) == 0


def test_search_as_json(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    said = ["model.py:train_step", "--mesh", "B=4", "--device", "a100"]
    assert main(["search", *said, "--evaluations", "10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is True
    assert found["evaluations"] <= 11


def test_search_says_why_it_found_nothing(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    said = ["model.py:train_step", "--mesh", "B=7", "--device", "a100"]
    assert main(["search", *said, "--evaluations", "9"]) == 0
    assert (
        "nothing is left to decide over B: every dimension" in capsys.readouterr().out
    )
    assert main(["search", *said, "--evaluations", "9", "--json"]) == 0
    assert "does not divide by 7" in json.loads(capsys.readouterr().out)["reason"]


def test_search_shows_what_may_be_decided(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    said = ["model.py:train_step", "--mesh", "B=4", "--device", "a100"]
    assert main(["search", *said, "--show-moves"]) == 0
    out = capsys.readouterr().out
    assert "dimension 0: size" in out
    assert "over B: tile" in out


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ([], "--device"),
        (["--device", "a100", "--memory-limit", "0.000001"], "no partition over B"),
        (["--device", "a100", "--axes", "X"], '"X"'),
        (["--device", "a100", "--evaluations", "0"], "more than 0"),
    ],
)
def test_search_refuses(
    more: list[str], text: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    said = ["model.py:train_step", "--mesh", "B=4", "--evaluations", "5"]
    assert main(["search", *said, *more, "-o", "found.py"]) == 2
    own = [line for line in capsys.readouterr().err.splitlines() if "partir" in line]
    assert len(own) == 1
    assert text in own[0]
    assert not (folder / "found.py").exists()
