"""`partir export` of traces and layouts, `partir completion`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.workspace import PARTITION, refusal, run

pytestmark = pytest.mark.usefixtures("folder")
EXPORT = ("export", *PARTITION)
COMMANDS = (
    "demo show explain diff suggest search export devices calibrate verify fuzz "
    "completion"
).split()


def test_chakra(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    chakra = (*EXPORT, "--to", "chakra", "--device", "a100", "-o", "step")
    assert run(capfd, *chakra) == ""
    assert len(list(folder.glob("step.*.et"))) == 8
    groups = json.loads((folder / "step.groups.json").read_text())
    assert all(len(ranks) in (2, 4) for ranks in groups.values())


def test_specs(capfd: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capfd, *EXPORT, "--to", "specs"))
    assert data["arguments"]["params/w1"] == [[], ["M"]]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--to", "chakra", "--device", "a100"), "say -o PREFIX for PREFIX.0.et"),
        (("--to", "chakra", "-o", "x"), "--to chakra needs --device"),
        (
            ("--to", "chakra", "--device", "a100", "-o", "none/x"),
            "can't write none/x.0.et: No such file",
        ),
        (("--to", "specs", "-o", "none/x"), "can't write none/x: No such file"),
    ],
)
def test_refusals(
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    assert told in refusal(capfd, *EXPORT, *arguments)
    assert not list(folder.glob("**/*.part"))


def test_what_was_written_as_json(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(run(capfd, *EXPORT, "-o", "step.mlir", "--json"))
    assert data == {"files": ["step.mlir"], "collectives": {"all_reduce": 4}}
    assert (folder / "step.mlir").exists()


def completed(script: str, *words: str) -> list[str]:
    typed = " ".join(words)
    lines = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _partir"
    command = f"{script}\n{lines}\necho ${{COMPREPLY[@]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_completion_in_bash(capfd: pytest.CaptureFixture[str]) -> None:
    script = run(capfd, "completion", "bash")
    assert completed(script, "partir", "ex") == ["explain", "export"]
    assert "--no-remedies" in completed(script, "partir", "explain", "--n")
    assert completed(script, "partir", "show", "sch") == ["sched.py"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    script = run(capfd, "completion", shell)
    assert all(command in script for command in COMMANDS)
    assert "against-mesh" in script
