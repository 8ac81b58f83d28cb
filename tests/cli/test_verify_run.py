"""`partir verify --run`: the partition, run, agrees with the program on one device."""

from __future__ import annotations

import json

import numpy as np
import pytest

from partir.cli import execution
from tests.cli.workspace import PARTITION, refusal, run

pytestmark = pytest.mark.usefixtures("folder")
VERIFY = ("verify", *PARTITION, "--run")


def test_results_agree(capfd: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capfd, *VERIFY, "--json"))
    assert data["not_proved"] == []
    assert [one["result"] for one in data["run"]] == data["proved"]
    assert all(one["agrees"] for one in data["run"])
    assert any(one["limit"] > 0 for one in data["run"])
    lines = run(capfd, *VERIFY).splitlines()
    assert lines[1].startswith("3 of 3 results agree with one device")


def test_what_differs_is_told() -> None:
    want = np.array([1.0, 2.0, np.inf], np.float32)
    got = np.array([1.0, 2.5, np.inf], np.float32)
    assert execution._compared("out", want, want).agrees
    apart = execution._compared("out", got, want)
    assert not apart.agrees
    assert str(apart) == "out differs by 2.5e-01"
    assert not execution._compared("out", np.array([1.0, np.nan, 3.0]), want).agrees
    assert not execution._compared("n", np.array([1]), np.array([2])).agrees


def test_refusals(capfd: pytest.CaptureFixture[str]) -> None:
    assert "leave --module out" in refusal(capfd, *VERIFY, "--module", "x.mlir")
    large = ("verify", "model.py:train_step", "--mesh", "B=4,M=32", "--run")
    assert "128 are more than 64" in refusal(capfd, *large)
