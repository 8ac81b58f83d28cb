"""The pairs are the full product, and their page says what was measured."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace

import pytest

from benchmarks import book
from benchmarks.pairs.cases import FORMS, MODELS, PAIRS, REGIMES, SCHEDULES
from benchmarks.pairs.measure import NAMES, OURS, Made, Row, Sample
from benchmarks.pairs.page import FIGURES, page, short
from benchmarks.results_page import RESULTS

MADE = Made(Sample(2.0, 3.0), Sample(0.1, 0.2), 4000, 8000.0, {"all-gather": 2}, 1)


def row(seconds: float) -> Row:
    """Ours takes this time, and the others 0.1 and 0.2 s."""
    ours = replace(MADE, step=Sample(seconds, seconds))
    others = MADE, replace(MADE, step=Sample(0.2, 0.2))
    return Row(PAIRS[0], dict(zip(NAMES, (ours, *others), strict=True)), 1.01)


def test_nothing_of_the_product_is_left_out() -> None:
    assert len(set(PAIRS)) == len(MODELS) * len(FORMS) * len(REGIMES) * len(SCHEDULES)
    assert Counter(pair.regime for pair in PAIRS) == {"weights": 24, "activations": 24}
    assert len(set(map(str, PAIRS))) == len(PAIRS) == 48


@pytest.mark.parametrize("pair", PAIRS[::6], ids=str)
def test_a_case_has_the_tactics_of_its_schedule(pair: object) -> None:
    assert pair in PAIRS
    _, args, tactics = PAIRS[PAIRS.index(pair)].case()
    assert "+".join(tactic.name for tactic in tactics) == str(pair).rsplit(", ", 1)[-1]
    assert len(args) == 4


def test_ratios_are_by_the_better_of_the_others() -> None:
    assert row(0.05).ratio(FIGURES["step"]) == pytest.approx(0.5)
    assert "step 0.50x" in short(row(0.05))
    text = page([row(0.05), row(0.2)])
    assert "| step | 2 | 1.00x | 2.00x | 1 |" in text
    assert "2/0/0/0/0" in text


def test_what_was_not_measured_does_not_count() -> None:
    text = page([row(0.05), row(float("nan"))])
    assert "| step | 1 | 0.50x | 0.50x | 0 |" in text
    assert "| temporaries | 2 | 1.00x | 1.00x | 0 |" in text
    assert "| - · 100.0 · 200.0 |" in text


def test_rows_are_kept() -> None:
    data = json.loads(json.dumps(asdict(row(0.05))))
    assert Row.from_data(data) == row(0.05)
    assert data["made"][OURS]["copies"] == 1


def test_the_book_has_every_result() -> None:
    text = book.book()
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"README", "book"}
    assert pages == set(book.parts())
    for name in pages:
        title = (RESULTS / f"{name}.md").read_text().splitlines()[0]
        assert f"\n#{title}\n" in text
        assert f"](#{book.anchor(title.removeprefix('# '))})" in text
