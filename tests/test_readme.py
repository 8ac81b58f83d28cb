"""The README's code runs, and prints what the README says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.markdown import Page, blocks

README = Path(__file__).parents[1] / "README.md"


def test_readme(tmp_path: Path) -> None:
    for framework in ("flax", "equinox", "haiku", "optax"):
        pytest.importorskip(framework)
    page = Page(README, tmp_path)
    page.run()
    assert page.ran >= 10


def test_first_screen() -> None:
    """The problem, some ten lines of code and the table come before anything else."""
    text = README.read_text(encoding="utf-8")
    code, table, *_ = blocks(text)
    lines = [line for line in code.text.splitlines() if line.strip()]
    assert code.language == "python"
    assert len(lines) <= 12
    assert table.text.startswith("train_step on B=4,M=2")
    assert table.line < 40


def test_links_lead_somewhere() -> None:
    import re

    for page in (README, *README.parent.glob("docs/*.md")):
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
        targets = re.findall(r"\]\(([^)#]+)(#[^)]*)?\)", text)
        local = [target for target, _ in targets if "://" not in target]
        missing = [target for target in local if not (page.parent / target).exists()]
        assert not missing, f"{page.name}: {missing}"
