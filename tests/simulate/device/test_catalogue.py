"""Device specs: plausible figures, TOML, and messages for bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import partir
from partir.simulate.device.catalogue import _SPECS
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.device.spec_files import load_spec, user_folder

pytestmark = pytest.mark.quick


NEEDED: dict[str, Any] = {
    "name": "mine",
    "flops_per_s": 1e14,
    "memory_bytes": 16e9,
    "memory_bytes_per_s": 1e12,
    "link_bytes_per_s": 5e10,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PARTIR_CONFIG_HOME", str(tmp_path))
    made = user_folder()
    made.mkdir()
    return made


@pytest.mark.parametrize("spec", _SPECS, ids=lambda spec: spec.name)
def test_figures_are_plausible(spec: DeviceSpec) -> None:
    assert 1e9 < spec.flops_per_s < 1e16
    assert 1e9 < spec.memory_bytes < 1e12
    assert 1e9 < spec.memory_bytes_per_s < 1e13
    assert spec.link_bytes_per_s < spec.memory_bytes_per_s
    assert 1 < spec.ridge_flops_per_byte < 1000
    assert spec.source


# By libtpu 0.0.42.1: GiB that programs have on a device, devices on a chip (v4 as
# "megacore"). By docs.cloud.google.com/tpu/docs: a chip's bf16 TFLOP/s and GB/s.
CHIPS = {
    "tpu_v3": (15.48, 2, 123, 900),
    "tpu_v4": (30.75, 1, 275, 1200),
    "tpu_v5e": (15.75, 1, 197, 819),
    "tpu_v5p": (95.74, 1, 459, 2765),
    "tpu_v6e": (31.25, 1, 918, 1638),
    "tpu_v7": (94.75, 2, 2307, 7380),
}


def test_every_tpu_is_compared_with_its_chip() -> None:
    assert {spec.name for spec in _SPECS if spec.topology == "torus"} == set(CHIPS)


@pytest.mark.parametrize("name", CHIPS)
def test_a_tpu_is_one_device_of_jax(name: str) -> None:
    spec, (gib, devices, tflops, bandwidth) = partir.devices[name], CHIPS[name]
    assert spec.memory_bytes == gib * 2**30
    assert spec.flops_per_s * devices == tflops * 1e12
    assert spec.memory_bytes_per_s * devices == bandwidth * 1e9


@pytest.mark.parametrize("spec", _SPECS, ids=lambda spec: spec.name)
def test_toml_round_trip(spec: DeviceSpec, tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml())
    assert load_spec(path) == spec


def test_named_by_users(folder: Path) -> None:
    spec = DeviceSpec(**NEEDED)
    (folder / "mine.toml").write_text(spec.to_toml())
    assert partir.devices["mine"] == spec
    assert next(iter(partir.devices)) == "mine"
    assert "mine" in partir.devices


def test_the_users_own_come_first(folder: Path) -> None:
    own = replace(partir.devices["tpu_v4"], link_bytes_per_s=1.0)
    (folder / "tpu_v4.toml").write_text(own.to_toml())
    assert partir.devices["tpu_v4"].link_bytes_per_s == 1.0
    assert list(partir.devices).count("tpu_v4") == 1


def test_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTIR_CONFIG_HOME", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert user_folder() == Path("/somewhere/partir/devices")


def test_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(partir.PartitionError, match=r"nearest: .*tpu_v5e"):
        partir.devices["tpu_v5x"]


def test_get_and_contains_behave_like_a_mapping() -> None:
    assert partir.devices.get("nothing of the kind") is None
    assert "../escape" not in partir.devices


@pytest.mark.parametrize("name", [n for n in NEEDED if n != "name"])
def test_negative_figure(name: str) -> None:
    with pytest.raises(partir.PartitionError, match=f'"mine": {name} must be a number'):
        DeviceSpec(**{**NEEDED, name: -1.0})


@pytest.mark.parametrize("name", NEEDED)
def test_missing_figure(name: str, tmp_path: Path) -> None:
    lines = [f"{k} = {v!r}" for k, v in NEEDED.items() if k != name]
    path = tmp_path / "spec.toml"
    path.write_text("\n".join(lines))
    with pytest.raises(partir.PartitionError, match=f"lacks {name}"):
        load_spec(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flops_per_s": float("nan")}, "flops_per_s must be a number"),
        ({"flops_per_s": "fast"}, "flops_per_s must be a number"),
        ({"topology": "star"}, "topology must be one of torus"),
        ({"order": "random"}, "order must be one of program"),
        ({"matrix_tile": (8, 0, 8)}, "matrix_tile must be three whole numbers"),
        ({"matrix_efficiency": 9}, "at most 8"),
        ({"collective_efficiency": {"shuffle": 1.0}}, "collective_efficiency"),
        ({"collective_efficiency": {"all_gather": 0}}, "collective_efficiency"),
    ],
)
def test_bad_figures(change: dict[str, Any], message: str) -> None:
    with pytest.raises(partir.PartitionError, match=message):
        DeviceSpec(**{**NEEDED, **change})


def test_unknown_field_suggests(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text('name = "a"\nflop_per_s = 1e12\n')
    with pytest.raises(partir.PartitionError, match="did you mean flops_per_s"):
        load_spec(path)


def test_not_toml(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text("name = ")
    with pytest.raises(partir.PartitionError, match="is not TOML"):
        load_spec(path)
    with pytest.raises(partir.PartitionError, match="can't read"):
        load_spec(tmp_path / "none.toml")
