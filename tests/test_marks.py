"""The mark `quick`, which `make check` runs, forgets no package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PACKAGES = sorted(
    path.name
    for path in (ROOT / "src/partir").iterdir()
    if (path / "__init__.py").exists()
)
# Packages whose tests are not in a folder of their name.
ELSEWHERE = {"execute": "e2e", "ir": "partition"}
IMPORTED_AS = {"dm-haiku": "haiku"}


def quick_files(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("test_*.py") if "mark.quick" in p.read_text()]


def frameworks() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = (
        need.split("=")[0] for need in project["optional-dependencies"]["frameworks"]
    )
    return [IMPORTED_AS.get(name, name) for name in names]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_quick_tests(package: str) -> None:
    folder = TESTS / ELSEWHERE.get(package, package)
    assert quick_files(folder), (
        f"no test under {folder.relative_to(ROOT)} is marked quick, so that make check "
        f"says nothing of partir.{package}"
    )


@pytest.mark.parametrize(
    "folder", sorted({p.parent for p in TESTS.glob("*/**/test_*.py")})
)
def test_every_folder_mirrors_a_package(folder: Path) -> None:
    top = folder.relative_to(TESTS).parts[0]
    assert top in {*PACKAGES, "benchmarks", "e2e"}


@pytest.mark.parametrize("name", frameworks())
def test_every_framework_runs_on_devices_quickly(name: str) -> None:
    imports = re.compile(rf"^\s*(import|from) {name}\b", re.MULTILINE)
    files = quick_files(TESTS / "e2e")
    assert any(imports.search(path.read_text()) for path in files), (
        f"no quick test in tests/e2e uses {name}"
    )
