"""The command line: what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import partir
from partir.cli import main
from partir.frontend.parsing import parse_module
from tests.cli.workspace import PARTITION, run
from tests.conftest import Golden

pytestmark = pytest.mark.usefixtures("folder")


def test_table(capfd: pytest.CaptureFixture[str], golden: Golden) -> None:
    assert run(capfd, "show", *PARTITION).rstrip() == golden


def test_tables_fit_a_narrow_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partir.cli.show.terminal_width", lambda: 60)
    shown = run(capfd, "show", *PARTITION, "--device", "a100", "--by", "source")
    assert max(map(len, shown.splitlines())) <= 60
    wide = [word for line in shown.splitlines() for word in line.split()]
    assert {"all_gather", "conflicts", "communication", "MFU", "flops"} <= {*wide}
    monkeypatch.setattr("partir.cli.explain.terminal_width", lambda: 60)
    shown = run(capfd, "explain", *PARTITION)
    assert max(map(len, shown.splitlines())) <= 60


def test_names(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "show", *PARTITION, "--names")
    names = [line.partition("  # ")[0].rstrip() for line in out.splitlines()[6:]]
    assert names == [
        "params/w1    float32[16,32] {_, M}",
        "params/w2    float32[32,16] {M, _}",
        "x            float32[8,16] {B, _}",
        "y            float32[8,16] {B, _}",
        "out/0/w1     float32[16,32] {_, M}",
        "out/0/w2     float32[32,16] {M, _}",
        "out/1        float32[]",
        "hidden       float32[8,32] {B, M}",
        "hidden/grad  float32[8,32] {B, M}",
    ]


def test_addresses(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "show", *PARTITION, "--addresses")
    (line,) = [line for line in out.splitlines() if "loss/maximum/0" in line]
    assert line.startswith("%train_step.<locals>.loss/maximum/0 ")
    assert "float32[8,32] {B, M}" in line
    assert "model.py:12" in line


def test_core_and_spmd(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "show", *PARTITION, "--core", "--spmd")
    assert 'loop "B" [#tile<0>] (%rB: range<4>)' in out
    assert "spmd @train_step on B=4,M=2 (" in out
    assert "all_reduce sum {M}" in out


def test_json(capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--json", "--names", "--addresses", "--core", "--spmd"]
    data = json.loads(run(capfd, "show", *PARTITION, *options))
    assert data["program"] == "train_step"
    assert data["mesh"] == {"B": 4, "M": 2}
    assert [step["name"] for step in data["steps"]] == ["BP", "MP"]
    assert data["steps"][1]["collectives"]["all_reduce"] == 4
    assert data["steps"][0]["work_by_axis"]["M"] == 2
    assert 1 <= data["steps"][1]["work"] < data["steps"][0]["work"]
    assert data["steps"][0]["actions"] == ["tile('x', 0, 'B')", "tile('y', 0, 'B')"]
    assert data["names"][0] == {
        "name": "params/w1",
        "kind": "argument",
        "shape": [16, 32],
        "dtype": "float32",
        "tiling": [[], ["M"]],
    }
    assert {"core", "spmd", "addresses", "replicated_ops", "notes"} <= data.keys()


def test_no_schedule(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "show", "model.py:train_step", "--mesh", "B=4")
    assert out.splitlines()[-1].split() == [
        "no",
        "tactic",
        *"00000",
        "0",
        "B",
        "4.00",
        "0",
    ]


def test_stablehlo_file_and_saved_schedule(
    capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    shape = jax.ShapeDtypeStruct((8, 8), "float32")
    lowered = jax.jit(lambda x, w: x @ w).lower(shape, shape)
    (folder / "model.mlir").write_text(lowered.as_text())
    program = partir.load(folder / "model.mlir")
    name = program.arguments[0].name
    tactic = partir.ManualPartition({name: 1}, axis="B", name="rows")
    partir.partition(program, {"B": 4}, [tactic]).save(folder / "saved.json")
    out = run(capfd, "show", "model.mlir", "--mesh", "B=4", "--schedule", "saved.json")
    assert out.splitlines()[-1].split()[:3] == ["rows", "0", "1"]


@pytest.mark.parametrize("options", [[], ["--bytecode"]])
def test_export_writes_what_a_device_runs(
    capfd: pytest.CaptureFixture[str], folder: Path, options: list[str]
) -> None:
    to = ["--to", "stablehlo", "-o", "local.mlir"]
    assert main(["export", *PARTITION, *to, *options]) == 0
    assert "wrote local.mlir: 4 all_reduce" in capfd.readouterr().err
    data = (folder / "local.mlir").read_bytes()
    assert data.startswith(b"ML\xefR") == bool(options)
    text = str(parse_module(data if options else data.decode()))
    head = ", ".join(
        f"%arg{n}: tensor<{'16' if n < 2 else '2'}x16xf32>" for n in range(4)
    )
    assert f"@main({head})" in text
    assert text.count('"stablehlo.all_reduce"') == 4
    assert not (folder / "local.mlir.part").exists()
    show = ["show", "local.mlir", "--mesh", "B=4"]
    assert main(show) == 2
    assert "for each device of mesh B=4,M=2, not a whole" in capfd.readouterr().err


def test_export_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    text = run(capfd, "export", *PARTITION)
    assert str(parse_module(text)).count('"stablehlo.all_reduce"') == 4


def test_demo(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "demo", "--layers", "1", "--steps", "1")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["BP"][1:4] == ["0", "8", "0"]
    assert rows["MP"][1:4] == ["0", "12", "0"]
    assert rows["Z3"][1:4] == ["11", "7", "5"]
    assert "params/layer_0/up     P('B', 'M')" in out
    (worst,) = [line for line in out.splitlines() if "largest relative" in line]
    assert float(worst.rpartition(" ")[2]) < 1e-9
    assert out.endswith("the same training, split over 8 devices.\n")


@pytest.mark.parametrize("command", [[], ["demo"], ["show"], ["export"]])
def test_help(capfd: pytest.CaptureFixture[str], command: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    out = capfd.readouterr().out
    assert out.startswith(f"usage: {' '.join(['partir', *command])}")
    if command in (["show"], ["export"]):
        for option in ("MODEL", "--mesh", "--schedule", "--strict"):
            assert option in out


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capfd.readouterr().out.strip() == partir.__version__


def test_installed_program(folder: Path) -> None:
    """Exit code, the stream that the line goes to, and nobody reading to the end."""
    program = str(Path(sys.executable).with_name("partir"))
    bad: Any = subprocess.run(
        [program, "show", "none.mlir", "--mesh", "B=4"], capture_output=True, text=True
    )
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
    command = f"{program} show {' '.join(PARTITION)} --core | head -n 1"
    piped = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=os.environ
    )
    assert piped.stdout.splitlines() == ["train_step on B=4,M=2 (8 devices)"]
    assert piped.stderr == "a user's own output\n"


def test_module_is_the_program_too() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "partir", "--version"], capture_output=True, text=True
    )
    assert (told.returncode, told.stdout.strip()) == (0, partir.__version__)


def test_demo_compares_shapes_of_all_kinds() -> None:
    from partir.cli.demo import _difference

    assert _difference(np.zeros(3), np.zeros(3)) == 0
    assert _difference(np.ones(3), np.zeros(3)) > 1


def test_verify(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "verify", *PARTITION).startswith("3 of 3 results proved in ")
    assert main(["export", *PARTITION, "-o", "local.mlir"]) == 0
    text = Path("local.mlir").read_text()
    at = text.index("stablehlo.all_reduce")
    wrong = text[:at] + text[at:].replace('"stablehlo.add"', '"stablehlo.maximum"', 1)
    Path("wrong.mlir").write_text(wrong)
    capfd.readouterr()
    assert main(["verify", *PARTITION, "--module", "wrong.mlir", "--json"]) == 1
    found = json.loads(capfd.readouterr().out)
    reason = found["not_proved"][0]["reason"]
    assert reason.startswith("all_reduce reads a partial sum over M of dot_general")
