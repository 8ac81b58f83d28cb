"""Moves as manual tactics: the same partition of the whole, whatever divides."""

from __future__ import annotations

import random
from typing import Any

import pytest

import partir
from benchmarks.models import moe, transformer
from partir.partition.state import State
from partir.search.problem import Problem
from partir.search.result.decisions import decisions
from partir.search.result.patterns import as_patterns
from partir.simulate.device.catalogue import devices
from partir.tactics.automatic import as_tactic

MODELS: dict[str, Any] = {
    "transformer": (
        transformer.step_for,
        transformer.example_args,
        transformer.Config.small(layers=4),
    ),
    # Six heads and five expert slots don't divide over every axis.
    "odd": (
        transformer.step_for,
        transformer.example_args,
        transformer.Config.small(layers=3, heads=6, hidden=36, sequence=10),
    ),
    "experts": (moe.step_for, moe.example_args, moe.Config()),
}
AXES = {"B": 4, "M": 2}


def start(name: str) -> partir.Partitioned:
    step, args, config = MODELS[name]
    given = args(config)[0]
    return partir.partition(
        step(config), AXES, [], args=given, device="h100", donate_argnums=(0, 1)
    )


def as_applied(made: partir.Partitioned, tactics: list[Any]) -> State:
    done = partir.partition(made.program, AXES, tactics)
    return done.steps[-1].state


@pytest.mark.parametrize("name", MODELS)
def test_tactics_do_what_the_moves_did(name: str) -> None:
    made = start(name)
    first = made.steps[-1].state
    problem = Problem(first, tuple(AXES), devices["h100"], [False] * 10_000)
    rng = random.Random(1)
    meeting = [move for move in problem.fixed if move.loops]
    others = [move for move in problem.fixed if not move.loops]
    for move in rng.sample(meeting, min(3, len(meeting))):
        path = (move, *rng.sample(others, 2))
        found = decisions(problem, path, first)
        whole = first.copy()
        for decision in found:
            decision.apply(whole)
        tactics = [as_tactic(made.partition_record, one) for one in found]
        state = as_applied(made, tactics)
        assert state.nests == whole.nests
        assert state.tilings == whole.tilings


def test_patterns_match_nothing_else() -> None:
    names = ["p/a_0/w", "p/a_1/w", "p/b_0/w", "q/a_0/w", "q/a_1/w", "x"]
    wishes = {"p/a_0/w": 1, "p/a_1/w": 1, "x": 0}
    assert as_patterns(wishes, names) == {"p/a_*/w": 1, "x": 0}
    assert as_patterns({**wishes, "p/b_0/w": 1}, names) == {"p/*/w": 1, "x": 0}
    assert as_patterns({"p/a_0/w": 1}, names) == {"p/a_0/w": 1}
