"""`partir devices`, `calibrate`, `show --device`, `export --to perfetto`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partir.cli import main
from partir.execute import measure
from partir.simulate.device.spec_files import load_spec

MODEL = """
import jax, jax.numpy as jnp
import partir

def step(w, x):
    return jnp.tanh(x @ w).sum()

def example_args():
    return (jax.ShapeDtypeStruct((64, 64), "float32"),) * 2, {}

schedule = [partir.ManualPartition({"x": 0}, axis="B", name="BP")]
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


@pytest.fixture
def arguments(model: str) -> list[str]:
    return [f"{model}:step", "--mesh", "B=4", "--schedule", model]


@pytest.mark.quick
def test_show(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", *arguments, "--device", "tpu_v5e", "--memory", "2"]) == 0
    text = capsys.readouterr().out
    assert "on tpu_v5e" in text
    assert "alive at the peak" in text
    assert "more" in text


def test_show_json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["show", *arguments, "--device", "a100", "--json", "--memory"]
    assert main(command) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["steps"][0]["estimate"]["device"] == "a100"
    assert data["alive_at_peak"][0]["bytes"] > 0


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--device", "tpu_v5x"], 'no device "tpu_v5x"; nearest: '),
        (["--device", "none.toml"], "can't read none.toml"),
        (["--memory"], "--memory needs --device"),
    ],
)
def test_bad_device(
    arguments: list[str],
    extra: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["show", *arguments, *extra]) == 2
    assert message in capsys.readouterr().err


def test_perfetto(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "trace.json"
    command = ["export", *arguments, "--to", "perfetto", "-o", str(target)]
    assert main(command) == 2
    assert "--to perfetto needs --device" in capsys.readouterr().err
    assert main([*command, "--device", "h100"]) == 0
    assert json.loads(target.read_text())["traceEvents"]


@pytest.mark.quick
def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    text = capsys.readouterr().out
    assert "tpu_v5e" in text
    assert "2D torus" in text
    assert main(["devices", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {spec["name"] for spec in data} >= {"tpu_v4", "h100"}


@pytest.mark.slow
def test_calibrate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARTIR_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(measure, "_REPEATS", 2)
    assert main(["calibrate", "--name", "here", "--quick"]) == 0
    text = capsys.readouterr().out
    assert "all_to_all" in text
    assert "median error" in text
    spec = load_spec(tmp_path / "devices" / "here.toml")
    assert spec.name == "here"
    assert spec.topology == "shared"
    assert spec.flops_per_s > 1e8


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--devices", "0"], "--devices must be at least 1"),
        (["--name", "a/b"], "not a plain name"),
    ],
)
def test_calibrate_messages(
    extra: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", *extra]) == 2
    assert message in capsys.readouterr().err
