"""The code in the documentation runs, and prints what the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.markdown import Page

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", sorted(path.stem for path in DOCS.glob("*.md")))
def test_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Page(DOCS / f"{name}.md", tmp_path)
    page.run()
    assert page.ran
