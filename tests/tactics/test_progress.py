"""How far a search is: where, when and what is shown."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from rich.console import Console

from partir.search.goal import Outcome
from partir.search.methods.best import Progress
from partir.search.methods.budget import Budget
from partir.tactics import progress as shown

BEST = Outcome(0.004, 2 * 10**9, True, 0.5)
BUDGET = Budget(1000, None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [100.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    return now


def in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    shell = type("ZMQInteractiveShell", (), {})()
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    return out


def test_nothing_where_nobody_looks() -> None:
    with shown.live_progress(BUDGET) as told:
        assert told is None


def test_one_line_in_a_notebook_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    out = in_a_notebook(monkeypatch)
    with shown.live_progress(BUDGET) as told:
        assert told is not None
        for evaluations in range(10, 60, 10):
            told(Progress(evaluations, clock[0] - 100, BEST, ()))
            clock[0] += 0.9
    first, *lines = out.getvalue().split("\r")
    assert first == ""
    assert [line.split("; ")[1] for line in lines] == [
        "40 of 1000 evaluations, 15 per second",
        "50 of 1000 evaluations, 14 per second",
    ]
    assert lines[0].startswith("searching: best 4 ms, 2 GB; ")
    assert lines[-1].endswith("\n")


def test_a_short_search_in_a_notebook_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    out = in_a_notebook(monkeypatch)
    with shown.live_progress(BUDGET) as told:
        assert told is not None
        clock[0] += 1.9
        told(Progress(10, 1.9, BEST, ()))
    assert out.getvalue() == ""


def test_a_spinner_on_a_terminal() -> None:
    out = io.StringIO()
    line = shown.TerminalLine(Console(file=out, force_terminal=True, width=100))
    line.show("searching: best 4 ms")
    line.close()
    assert "searching: best 4 ms" in out.getvalue()
