"""Measured results say how they came about, and pages quote them as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted(
    p for p in (ROOT / "benchmarks/results").glob("*.md") if p.stem != "README"
)
PAGES = sorted((ROOT / "docs").glob("*.md"))
FIELDS = ("command", "date", "versions", "machine")


def tables(text: str) -> Iterator[tuple[str, list[str]]]:
    """Headers with their rows."""
    for found in re.finditer(r"((?:^\|.*\n)+)", text, re.MULTILINE):
        header, _, *rows = found[1].splitlines()
        yield header, rows


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_says_how_it_came_about(path: Path) -> None:
    text = path.read_text()
    fields = dict(re.findall(r"^\| (\w+) \| (.+) \|$", text, re.MULTILINE))
    assert [name for name in FIELDS if not fields.get(name)] == []
    assert re.match(r"20\d\d-\d\d-\d\d", fields["date"])
    module = re.match(r"`python -m (benchmarks\.\w+)", fields["command"])
    assert module is not None
    assert find_spec(module[1]) is not None
    assert f"({path.name})" in (path.parent / "README.md").read_text()


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_pages_quote_results_as_they_are(path: Path) -> None:
    link = f"(../benchmarks/results/{path.name})"
    quoting = [page for page in PAGES if link in page.read_text()]
    assert quoting, f"no page in docs refers to {path.name}"
    known = {header: set(rows) for header, rows in tables(path.read_text())}
    for page in quoting:
        for header, rows in tables(page.read_text()):
            assert [r for r in rows if r not in known.get(header, rows)] == []
