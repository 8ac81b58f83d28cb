"""Thirty "why" questions: what was written down of each partition holds together."""

from __future__ import annotations

import pytest

import partir
from tests.why.questions import DEVICE, QUESTIONS, WITH_HELP, WITHOUT_HELP, Question


def partitioned(question: Question) -> partir.Partitioned:
    return partir.partition(
        question.fn,
        question.mesh or {"A": 4},
        question.schedule,
        args=question.args,
        device=DEVICE,
        carry=question.carry,
    )


def test_there_are_thirty_and_ten_have_no_remedy() -> None:
    assert len(WITH_HELP) == 20
    assert len(WITHOUT_HELP) == 10
    assert all(question.help for question in WITH_HELP)
    assert not any(question.help for question in WITHOUT_HELP)
    assert len({question.title for question in QUESTIONS}) == 30


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.title)
def test_the_situation_is_there(question: Question) -> None:
    """A collective of the kind asked about, or a value of that name."""
    found = partitioned(question)
    if question.ask == "peak_bytes":
        assert found.estimate.peak_bytes
        return
    if isinstance(question.ask, str):
        names = found.partition_record.names
        assert names.matching(question.ask) or names.results_matching(question.ask)
        return
    kind, _ = question.ask
    assert found.collectives[kind]
