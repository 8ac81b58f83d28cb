"""What CONTRIBUTING and other pages say of the tree is true of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [CONTRIBUTING, ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PATH = re.compile(r"`((?:src|tests|benchmarks|docs|examples)/[\w./-]+)`")
TEST = re.compile(r"`(test_\w+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_that_pages_name_exist(page: Path) -> None:
    named = set(PATH.findall(page.read_text()))
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_tests_that_recipes_name_exist() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(TEST.findall(CONTRIBUTING.read_text()))
    assert named
    assert sorted(name for name in named if f"def {name}(" not in tests) == []


def test_every_package_has_its_line() -> None:
    """In the table of what is where."""
    rows = re.findall(r"^\| (.*?) \| ", CONTRIBUTING.read_text(), re.MULTILINE)
    listed = set(re.findall(r"`(\w+)/`", " ".join(rows)))
    packages = (ROOT / "src/partir").glob("*/__init__.py")
    assert sorted({path.parent.name for path in packages} - listed) == []
