"""The examples run from a clone, on virtual devices, and agree with one device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from partir.cli import main
from tests.versions import spelled

ROOT = Path(__file__).parents[1]


def run(name: str) -> list[str]:
    """Lines that an example prints, run as users run it."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, f"examples/{name}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return spelled(done.stdout).splitlines()


def counts(lines: list[str], tactic: str) -> list[int]:
    """Gathers, all-reduces and reduce-scatters in a row of the table."""
    (row,) = [line.split() for line in lines if line.startswith(f"{tactic} ")]
    return [int(cell) for cell in row[1:4]]


def compared(lines: list[str]) -> list[tuple[float, float]]:
    pattern = re.compile(r".*?([\d.]+), on one device ([\d.]+)")
    found = [pattern.fullmatch(line) for line in lines]
    return [(float(match[1]), float(match[2])) for match in found if match]


def test_mlp() -> None:
    lines = run("mlp.py")
    assert counts(lines, "BP") == [0, 3, 0]
    assert counts(lines, "MP") == [0, 4, 0]
    assert counts(lines, "Z3") == [3, 2, 2]
    losses = compared(lines)
    assert len(losses) == 3
    assert all(abs(one - two) < 1e-4 for one, two in losses)
    assert losses[2] < losses[0]


def test_checkpoint() -> None:
    """Written under one schedule and mesh, read under another."""
    lines = run("checkpoint.py")
    assert "up is read as P(None, 'M') on B=2,M=4" in lines
    losses = compared(lines)
    assert len(losses) == 4
    assert all(abs(one - two) < 1e-4 for one, two in losses)
    assert losses[3] < losses[2] < losses[1]


def test_transformer() -> None:
    lines = run("transformer.py")
    assert "left alone by Z3: none" in lines
    assert "params/layers/up is P(None, 'B', 'M')" in lines
    assert "opt_state/mu/layers/up is P(None, 'B', 'M')" in lines
    ((loss, alone),) = compared(lines)
    assert abs(loss - alone) < 1e-3


@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_examples_serve_the_command_line(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = f"examples/{name}.py"
    model = [f"{file}:train_step", "--mesh", "B=4,M=2", "--schedule", file]
    assert main(["show", *model]) == 0
    assert capsys.readouterr().out.count("\n") == 6
