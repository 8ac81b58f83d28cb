"""What ops make of formulas is what the reference interpreter makes of numbers."""

from __future__ import annotations

from collections import Counter

import pytest

from partir.fuzz.campaign import cases
from partir.fuzz.case import Trial
from tests.verify.elements.meaning import differences

SEEDS = range(1730000, 1730010)


@pytest.mark.usefixtures("x64")
def test_integers_are_as_they_are_computed() -> None:
    """Of known arguments, and of unknown ones at what they are."""
    compared: Counter[str] = Counter()
    for seed in SEEDS:
        trial = Trial(next(iter(cases(seed))))
        found, counts = differences(trial.program, trial.args, trial.values)
        assert not found, seed
        compared += counts
    assert compared["known, equal"] > 1000
    assert compared["unknown, equal"] > 1000
