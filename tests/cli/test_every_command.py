"""Every command: help; on bad input one clear line, exit code 2, nothing written."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import pytest

from partir.cli import main
from partir.cli.main import command_line
from tests.cli.workspace import refusal

pytestmark = pytest.mark.usefixtures("folder")

ON_A_MODEL: dict[str, tuple[str, ...]] = {
    "show": (),
    "explain": (),
    "diff": ("--against-mesh", "B=2,M=2"),
    "suggest": ("--axis", "M", "--device", "tpu_v5e"),
    "search": ("--device", "tpu_v5e", "--evaluations", "3"),
    "export": (),
    "verify": (),
}
ALONE = ("demo", "devices", "calibrate", "fuzz", "completion")
MODEL, MESH = "model.py:train_step", "B=4,M=2"

by_command = pytest.mark.parametrize("command", ON_A_MODEL)


def call(
    command: str, model: str = MODEL, mesh: str = MESH, *more: str
) -> tuple[str, ...]:
    return command, model, "--mesh", mesh, *ON_A_MODEL[command], *more


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = command_line()
    (found,) = (
        action.choices
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return dict(found)


def test_no_command_is_forgotten() -> None:
    assert {*ON_A_MODEL, *ALONE} == set(commands())


@pytest.mark.parametrize("command", [*ON_A_MODEL, *ALONE])
def test_help(capfd: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    out, err = capfd.readouterr()
    assert stop.value.code == 0
    assert out.startswith(f"usage: partir {command}")
    assert err == ""


@pytest.mark.parametrize("command", [*ON_A_MODEL, *ALONE])
def test_json_everywhere(command: str) -> None:
    assert command == "completion" or "--json" in commands()[command].format_help()


BAD_MODELS: dict[str, bytes | None] = {
    "none.mlir": None,
    "empty.mlir": b"",
    "text.mlir": b"this is no module\n",
    "bytes.mlirbc": b"ML\xefR\x00\x01\x02",
    "cut.mlir.gz": gzip.compress(b"module {}" * 999)[:40],
    "latin.mlir": "né".encode("latin-1"),
}


@by_command
@pytest.mark.parametrize("model", [*BAD_MODELS, "folder"])
def test_bad_file(
    capfd: pytest.CaptureFixture[str], folder: Path, command: str, model: str
) -> None:
    (folder / "folder").mkdir()
    content = BAD_MODELS.get(model)
    if content is not None:
        (folder / model).write_bytes(content)
    line = refusal(capfd, *call(command, model))
    assert line.startswith("partir: ")
    assert model in line


@by_command
@pytest.mark.parametrize("mesh", ["", "B", "B=x", "B=0", "B=4,B=2", "B=4;M=2"])
def test_bad_mesh(capfd: pytest.CaptureFixture[str], command: str, mesh: str) -> None:
    line = refusal(capfd, *call(command, MODEL, mesh))
    assert line.startswith("partir: ")
    assert "mesh" in line


BAD_SCHEDULES = {
    "schedule = [": "SyntaxError",
    "schedule = 42": "a schedule is a list of tactics, got int",
    "schedule = ['BP']": "which is no tactic",
    "import partir\nschedule = [partir.ManualPartition]": "which is no tactic",
    "raise ValueError('not today')": "raised ValueError: not today",
    "raise SystemExit('bye')": "raised SystemExit: bye",
    "class Own:\n  def apply(self, partition): 1 / 0\nschedule = [Own()]": "ZeroDiv",
    "import partir\nschedule = [partir.ManualPartition({'x': 0}, axis='Q')]": '"Q"',
    "import partir\nschedule = [partir.ManualPartition({'z': 0}, axis='B')]": '"z"',
    "plan = []": "has no `schedule`",
}


@by_command
@pytest.mark.parametrize("text", BAD_SCHEDULES)
def test_bad_schedule(
    capfd: pytest.CaptureFixture[str], folder: Path, command: str, text: str
) -> None:
    (folder / "bad.py").write_text(text + "\n")
    line = refusal(capfd, *call(command, MODEL, MESH, "--schedule", "bad.py"))
    assert line.startswith("partir: ")
    assert BAD_SCHEDULES[text] in line


@by_command
@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 7}', "\x00"])
def test_bad_saved_schedule(
    capfd: pytest.CaptureFixture[str], folder: Path, command: str, text: str
) -> None:
    (folder / "bad.json").write_text(text)
    line = refusal(capfd, *call(command, MODEL, MESH, "--schedule", "bad.json"))
    assert line.startswith("partir: ")
    assert "bad.json" in line


@by_command
def test_bad_device(
    capfd: pytest.CaptureFixture[str], folder: Path, command: str
) -> None:
    (folder / "own.toml").write_text("flops = [")
    for device in ("tpu_v99", "none.toml", "own.toml"):
        line = refusal(capfd, *call(command, MODEL, MESH, "--device", device))
        assert line.startswith("partir: ")
        assert device in line


WRITING = {
    "search": (),
    "export": (),
    "export specs": ("--to", "specs"),
    "export bytecode": ("--bytecode",),
    "export perfetto": ("--to", "perfetto", "--device", "tpu_v5e"),
    "export chakra": ("--to", "chakra", "--device", "tpu_v5e"),
}


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("output", ["none/x", "model.py/x", "taken"])
def test_unwritable_output(
    capfd: pytest.CaptureFixture[str], folder: Path, command: str, output: str
) -> None:
    """A folder that isn't there, a file in place of one, a folder for a file."""
    for name in ("taken", "taken.5.et"):  # a trace has a file for each rank
        (folder / name / "something").mkdir(parents=True)
    before = sorted(folder.rglob("*.*"))
    name = command.partition(" ")[0]
    more = (*WRITING[command], "-o", output)
    line = refusal(capfd, *call(name, MODEL, MESH, *more))
    assert line.startswith(f"partir: can't write {output}")
    after = [path for path in sorted(folder.rglob("*.*")) if path.suffix != ".pyc"]
    assert after == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", MODEL, "--mesh", MESH, "--module", "none.mlir"),
        ("verify", MODEL, "--mesh", MESH, "--module", "model.py"),
        ("explain", MODEL, "--mesh", MESH, "nobody"),
        ("explain", MODEL, "--mesh", MESH, "all_gather#77"),
        ("explain", MODEL, "--mesh", MESH, "model.py:9999"),
        ("explain", MODEL, "--mesh", MESH, "x", "--axis", "Q"),
        ("explain", MODEL, "--mesh", MESH, "--line", "model.py"),
        ("explain", MODEL, "--mesh", MESH, "--least", "many"),
        ("diff", MODEL, "--mesh", MESH),
        ("diff", MODEL, "--mesh", MESH, "--against", "none.py"),
        ("diff", MODEL, "--mesh", MESH, "--against-model", "none.py:f"),
        ("diff", MODEL, "--mesh", MESH, "--against-mesh", "B"),
        ("diff", MODEL, "--mesh", MESH, "--against-device", "tpu_v99"),
        ("suggest", MODEL, "--mesh", MESH),
        ("suggest", MODEL, "--mesh", MESH, "--axis", "M"),
        ("suggest", MODEL, "--mesh", MESH, "--axis", "Q", "--device", "a100"),
        ("search", MODEL, "--mesh", MESH),
        ("search", MODEL, "--mesh", MESH, "--device", "a100", "--axes", "Q"),
        ("search", MODEL, "--mesh", MESH, "--device", "a100", "--axes", ","),
        ("search", MODEL, "--mesh", MESH, "--device", "a100", "--method", "luck"),
        ("search", MODEL, "--mesh", MESH, "--device", "a100", "--evaluations", "0"),
        ("export", MODEL, "--mesh", MESH, "--to", "perfetto"),
        ("export", MODEL, "--mesh", MESH, "--to", "chakra", "--device", "a100"),
        ("fuzz", "--programs", "0"),
        ("fuzz", "--programs", "some"),
        ("fuzz", "--seconds", "-1"),
        ("calibrate", "--devices", "0"),
        ("calibrate", "--name", "a/b"),
        ("calibrate", "-o", "model.py/x.toml"),
        ("calibrate", "-o", "."),
        ("completion", "tcsh"),
        ("devices", "all"),
    ],
    ids=" ".join,
)
def test_what_only_some_take(
    capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert refusal(capfd, *arguments).startswith("partir")
