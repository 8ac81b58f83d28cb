"""`partir fuzz`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from partir.cli import main
from partir.fuzz.case import Failure, Trial


def test_fuzz(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--programs", "1", "--seed", "2", "--devices-every", "0"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 programs (seeds 2 to 2) under 3 schedules: no failures")


def test_fuzz_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: Any) -> Failure:
        return Failure("core", "all of it")

    monkeypatch.setattr(Trial, "run", wrong)
    assert main(["fuzz", "--programs", "1", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (failure,) = told["failures"]
    assert (failure["seed"], failure["stage"]) == (0, "core")
    assert "def test_program_0():" in failure["test"]


@pytest.mark.parametrize(
    "wrong", [["--programs", "0"], ["--seed", "-1"], ["--seconds", "0"]]
)
def test_fuzz_bad_input(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err
