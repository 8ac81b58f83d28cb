"""Why questions: answers hold what was written down before; remedies help."""

from __future__ import annotations

import linecache
from functools import cache

import jax.numpy as jnp
import pytest

import partir
from partir.explain.answer import Explanation, Remedy
from partir.explain.remedies import MOST_SAID
from partir.partition.patterns import matcher
from tests.explain.more_questions import MORE
from tests.explain.programs import f32
from tests.explain.questions import (
    DEVICE,
    QUESTIONS,
    WITH_HELP,
    WITHOUT_HELP,
    Help,
    Question,
    tiles,
)

BY_TITLE = {question.title: question for question in (*QUESTIONS, *MORE)}
IN_LOOPS = pytest.mark.needs_jax("0.9", "it said where a loop is, not lines inside")
by_title = pytest.mark.parametrize(
    "title",
    [
        pytest.param(title, marks=[IN_LOOPS] * ("jax#26586" in title))
        for title in BY_TITLE
    ],
)


def partitioned(question: Question, schedule: object = None) -> partir.Partitioned:
    return partir.partition(
        question.fn,
        question.mesh or {"A": 4},
        question.schedule if schedule is None else schedule,
        args=question.args,
        device=DEVICE,
        carry=question.carry,
    )


@cache
def answer(title: str) -> tuple[partir.Partitioned, Explanation]:
    question = BY_TITLE[title]
    found = partitioned(question)
    if isinstance(question.ask, str):
        return found, found.explain(question.ask, question.axis)
    kind, value = question.ask
    first = next(
        one
        for one in found.collective_list
        if kind in ("any", one.kind) and value in ("any", one.value)
    )
    return found, found.explain(first.id)


def test_there_are_thirty_and_ten_have_no_remedy() -> None:
    assert len(WITH_HELP) == 20
    assert len(WITHOUT_HELP) == 10
    assert all(question.help for question in WITH_HELP)
    assert not any(question.help for question in WITHOUT_HELP)
    assert len({question.title for question in QUESTIONS}) == 30


@pytest.mark.quick
@by_title
def test_cause_tactic_and_line(title: str) -> None:
    question, (_, said) = BY_TITLE[title], answer(title)
    assert (said.cause, said.tactic) == (question.cause, question.tactic)
    if question.line is not None:
        source = linecache.getline(said.source.file, said.source.line)
        assert question.line in source


@by_title
def test_remedies_are_as_expected(title: str) -> None:
    question, (_, said) = BY_TITLE[title], answer(title)
    if question.marginal:
        assert len(said.remedies) <= MOST_SAID
    elif question.help is None:
        assert said.remedies == ()
    else:
        assert any(is_help(remedy, question.help) for remedy in said.remedies)


def is_help(remedy: Remedy, expected: Help) -> bool:
    """The same, said of the value itself or by a pattern that matches it."""
    patterns = [matcher(text) for text in remedy.target.split(", ")]
    if not any(pattern.fullmatch(expected.target) for pattern in patterns):
        return False
    spread = remedy.action == "spread" and expected.action == "tile"
    return spread or (remedy.action, remedy.dim) == (expected.action, expected.dim)


@by_title
def test_remedies_do_what_they_say(title: str) -> None:
    """Each is applied as its schedule says, and measured anew."""
    question, (before, said) = BY_TITLE[title], answer(title)
    for remedy in said.remedies:
        after = partitioned(question, remedy.schedule)
        assert after.estimate.seconds == pytest.approx(remedy.after.seconds)
        assert after.estimate.peak_bytes == remedy.after.peak_bytes
        assert after.bytes_communicated == remedy.after.bytes_communicated
        assert before.estimate.seconds == pytest.approx(remedy.before.seconds)
        faster = remedy.after.seconds < remedy.before.seconds
        less = remedy.after.bytes_communicated < remedy.before.bytes_communicated
        smaller = remedy.after.peak_bytes < remedy.before.peak_bytes
        assert faster or less or smaller


def test_every_axis_of_a_collective_is_explained() -> None:
    """What moves over two axes may do so since two tactics."""
    schedule = [tiles("first", "A", x=0), tiles("second", "C", x=0)]
    args = f32(4096, 1024), f32(1024, 64)
    found = partir.partition(
        lambda x, w: jnp.sort(x @ w, 0), {"A": 4, "C": 2}, schedule, args=args
    )
    (one,) = (use for use in found.collective_list if use.axes == ("A", "C"))
    said = found.explain(one.id)
    assert (said.axis, said.tactic) == ("A", "first")
    (other,) = said.others
    assert (other.axis, other.tactic, other.cause) == ("C", "second", said.cause)
