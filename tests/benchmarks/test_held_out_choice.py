"""Choices are judged by what was measured, each run by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.held_out_choice import Verdict, models, page, verdicts
from benchmarks.models.suite import partitioned
from benchmarks.simulator_accuracy import Timed

BEST = Timed("vit", "BP", "B=8,M=1", seconds=0.1, noise=0.01, predicted=0.2)
CHOSEN = replace(BEST, schedule="BP+Z3", seconds=0.104, noise=0.02, predicted=0.1)
WORST = replace(BEST, schedule="BP+Z2", seconds=0.3, noise=0.5, predicted=0.3)
OTHER = replace(BEST, model="gpt2", schedule="BP+MP")


def test_a_verdict_is_by_what_was_measured_of_the_schedule_predicted_best() -> None:
    verdict = Verdict.of([WORST, CHOSEN, BEST])
    assert (verdict.chosen, verdict.best) == ("BP+Z3 on B=8,M=1", "BP on B=8,M=1")
    assert verdict.slower == pytest.approx(0.04)
    assert verdict.noise == 0.02
    assert verdict.good


@pytest.mark.parametrize(("seconds", "good"), [(0.1049, True), (0.106, False)])
def test_five_percent_is_the_bar(seconds: float, good: bool) -> None:
    assert Verdict.of([replace(CHOSEN, seconds=seconds), BEST]).good is good


def test_every_model_is_judged_by_itself() -> None:
    found = verdicts([CHOSEN, OTHER, BEST])
    assert [one.model for one in found] == ["vit", "gpt2"]
    assert [one.slower for one in found] == pytest.approx([0.04, 0.0])


def test_the_page_says_how_many_choices_are_good() -> None:
    second = [replace(CHOSEN, seconds=0.2), BEST, OTHER]
    text = page([[CHOSEN, BEST, OTHER], second])
    assert "| vit | 1 | BP+Z3 on B=8,M=1 | BP on B=8,M=1 | 4.0% | 1.5% |" in text
    assert "| vit | 2 | BP+Z3 on B=8,M=1 | BP on B=8,M=1 | 100.0% | 1.5% |" in text
    assert (
        "3 of 4 choices are at most 5% slower than the best, the worst 100.0%" in text
    )
    assert "| vit | BP+Z3 | B=8,M=1 | 104.0 | 100.0 | 200.0 | 100.0 |" in text


def test_splits_tile_parameters() -> None:
    (model,) = models(["perceptron"])
    done = partitioned(model, model.schedules()["BP+MP"], {"B": 4, "M": 2})
    tiled = [path for path, spec in done.specs_json()["arguments"].items() if spec]
    assert any("linear_0/w" in path for path in tiled)
    assert done.work_by_axis["M"] < 1.1
