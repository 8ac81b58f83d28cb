"""Collectives of the published schedules, against formulas and the published counts."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from benchmarks.collectives import (
    PUBLISHED,
    count_others,
    count_transformer,
    decoding_counts,
    transformer_counts,
)
from benchmarks.models import decoding
from benchmarks.models.transformer import Config

pytestmark = pytest.mark.quick


def test_a_transformer_has_what_the_formulas_say() -> None:
    rows = list(count_transformer(Config.small(layers=2, biased=True)))
    assert len(rows) == len(PUBLISHED["T32"])
    assert [row for row in rows if not row.agrees] == []


def test_other_models_have_what_the_formulas_say() -> None:
    rows = list(count_others(layers=2))
    assert {row.model for row in rows} == PUBLISHED.keys() - {"T32"}
    assert [row for row in rows if not row.agrees] == []


@pytest.mark.parametrize("model", ["T32", "IT32"])
def test_formulas_of_32_layers_are_no_more_than_published(model: str) -> None:
    if model == "T32":
        formulas = transformer_counts(Config.small(layers=32, biased=True))
    else:
        formulas = decoding_counts(decoding.Config(layers=32, tokens=1536))
    assert formulas.keys() == PUBLISHED[model].keys()
    for name, published in PUBLISHED[model].items():
        pairs = zip(astuple(formulas[name]), astuple(published), strict=True)
        assert all(ours <= theirs for ours, theirs in pairs), name
