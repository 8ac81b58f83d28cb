"""Which partitions a search confirms on the whole program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from partir.search.goal import Outcome
from partir.search.methods.best import Best
from partir.search.problem import Problem
from partir.search.space.move import Move


def outcome(seconds: float, gigabytes: float) -> Outcome:
    return Outcome(seconds, int(gigabytes * 1e9), True, 1 / (1 + seconds))


def best() -> Best:
    stub: Any = SimpleNamespace(start=None, evaluations=0)
    stub.outcome = lambda _: outcome(9.0, 40.0)
    return Best(cast(Problem, stub))


def path(number: int) -> tuple[Move, ...]:
    return (Move("B", f"dimension {number}"),)


def test_leaders_are_not_all_of_the_same_memory() -> None:
    found = best()
    for number in range(40):  # one partition in many words
        found.offer(path(number), outcome(1 + number * 1e-4, 13.5 + number * 1e-4))
    found.offer(path(40), outcome(1.005, 12.5))
    for number in range(41, 80):
        found.offer(path(number), outcome(1 + number * 1e-5, 13.5))
    leaders = found.leaders()
    assert [one.seconds for _, one in leaders][:3] == [1.0, 1 + 1e-4, 1.005]
    assert leaders[2][0] == path(40)
    assert leaders[0] == (found.path, found.outcome)


def test_the_fastest_lead_where_memory_differs() -> None:
    found = best()
    for number in range(20):
        found.offer(path(number), outcome(1 + number, 10 + number))
    assert [one.seconds for _, one in found.leaders()] == [1, 2, 3, 4, 5, 6]
