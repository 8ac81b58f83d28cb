"""Which versions of jax partir runs on, and what is said on others."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import partir
from partir.jax_window import ANY_JAX, BEFORE, FIRST, require_jax

pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("version", [FIRST, "0.9.0.1", "0.9.2", "0.10.2", "0.10.3rc1"])
def test_versions_of_the_window(version: str) -> None:
    require_jax(version)


@pytest.mark.parametrize("version", ["0.4.38", "0.8.2", BEFORE, "0.11.0rc1", "1.0"])
def test_other_versions(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ANY_JAX, raising=False)
    with pytest.raises(ImportError) as caught:
        require_jax(version)
    assert isinstance(caught.value, partir.PartirError)
    assert str(caught.value) == (
        f"partir runs on jax from 0.8.3 to before 0.11, and this is jax {version}: pip "
        "install 'jax>=0.8.3,<0.11'. To try this version all the same, set "
        "PARTIR_ANY_JAX=1 in the environment"
    )
    monkeypatch.setenv(ANY_JAX, "1")
    require_jax(version)


def test_the_requirement_is_the_window() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"jax>={FIRST},<{BEFORE}" in project["dependencies"]


def test_the_documented_series_are_the_window() -> None:
    """One row for each minor version, the newest first."""
    page = (ROOT / "docs" / "running.md").read_text().partition("## Versions of jax")[2]
    rows = re.findall(r"^\| (0\.\d+)\.\d+ \|", page, re.MULTILINE)
    first, before = (int(version.split(".")[1]) for version in (FIRST, BEFORE))
    assert rows == [f"0.{minor}" for minor in reversed(range(first, before))]
    assert f"from {FIRST} to before {BEFORE}" in page
