"""`partir fuzz`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from partir.cli import main
from partir.fuzz.case import Failure, Trial
from partir.verify import NotProved, Proof


def test_fuzz(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--programs", "1", "--seed", "2", "--devices-every", "0"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 programs (seeds 2 to 2) under 3 schedules: no failures")


def test_what_is_not_proved_is_told_and_under_strict_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = NotProved("out", "the source has no roll")
    monkeypatch.setattr(Trial, "proof", Proof((), (one,), 0.0))
    command = ["fuzz", "--programs", "1", "--seed", "2", "--devices-every", "0"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "results proved: 0; 3 schedules have results that are not" in shown
    assert "  program 2, schedule 0: out is not proved: the source has no" in shown
    assert main([*command, "--strict"]) == 1


def test_what_is_right_and_disproved_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = NotProved("out", "is another", disproved=True)
    monkeypatch.setattr(Trial, "proof", Proof((), (wrong,), 0.0))
    assert main(["fuzz", "--programs", "1", "--seed", "2", "--json"]) == 1
    (failure,) = json.loads(capsys.readouterr().out)["failures"]
    assert failure["stage"] == "verify"
    assert failure["what"] == "right, and yet out is wrong: is another"


def test_fuzz_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: Any) -> Failure:
        return Failure("core", "all of it")

    monkeypatch.setattr(Trial, "run", wrong)
    assert main(["fuzz", "--programs", "1", "--seed", "2", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (failure,) = told["failures"]
    assert (failure["seed"], failure["stage"]) == (2, "core")
    assert "def test_program_2():" in failure["test"]


@pytest.mark.parametrize(
    "wrong", [["--programs", "0"], ["--seed", "-1"], ["--seconds", "0"]]
)
def test_fuzz_bad_input(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err
