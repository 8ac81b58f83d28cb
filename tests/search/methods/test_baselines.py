"""The searches against each other, on spaces small enough to know the answer."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from partir.errors import PartitionError
from partir.search.goal import Outcome
from partir.search.methods import METHODS, Best, Budget, method_named
from partir.search.methods.baselines import Exhaustive
from partir.search.problem import Problem
from tests.search.problems import problem

SPACES: dict[str, tuple[Any, ...]] = {
    "sgd": ("sgd", {"B": 4}),
    "sgd, little memory": ("sgd", {"B": 4}, "h100", None, {"memory_limit": 9e6}),
    "sgd, two axes": ("sgd", {"B": 2, "M": 2}, "tpu_v3", ("x", "params/up")),
    "mlp": ("mlp", {"B": 8}, "h100"),
    "inputs of a transformer": ("transformer", {"M": 4}, "tpu_v3", ("tokens",)),
    "matrices of a transformer": (
        *("transformer", {"M": 4}, "tpu_v3"),
        tuple(f"params/layer_{n}/{w}" for n in range(3) for w in ("qkv", "w1")),
    ),
}


def fresh(space: str) -> Problem:
    name, axes, device, allowed, options = (
        *SPACES[space],
        *("tpu_v3", None, {})[len(SPACES[space]) - 2 :],
    )
    return problem(name, axes, device, allowed, **options)


@functools.cache
def exact(space: str) -> tuple[Outcome, int]:
    asked = fresh(space)
    search = Exhaustive(asked, Best(asked))
    search.run(Budget(evaluations=3000))
    assert search.complete
    return search.best.outcome, search.count


def run(space: str, name: str, seed: int, evaluations: int) -> Best:
    return run_on(fresh(space), name, seed, evaluations)


def run_on(asked: Problem, name: str, seed: int, evaluations: int) -> Best:
    best = Best(asked)
    METHODS[name](asked, best, Budget(evaluations), seed)
    return best


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("space", SPACES)
def test_tree_search_is_as_good_as_exhaustive_search(space: str, seed: int) -> None:
    outcome, count = exact(space)
    best = run(space, "mcts", seed, max(count // 2, 20))
    assert best.outcome.score == pytest.approx(outcome.score, rel=1e-9)


@pytest.mark.parametrize("name", ["greedy", "random", "beam", "integer"])
@pytest.mark.parametrize("space", SPACES)
def test_nothing_is_better_than_exhaustive_search(space: str, name: str) -> None:
    best = run(space, name, 0, 100)
    assert best.outcome.score <= exact(space)[0].score * (1 + 1e-9)
    assert best.outcome.score >= best.history[0].best.score


@pytest.mark.parametrize("name", METHODS)
def test_equal_seeds_and_budgets_give_equal_answers(name: str) -> None:
    one, other = (run("mlp", name, 5, 60) for _ in range(2))
    assert one.path
    assert [m.key for m in one.path] == [m.key for m in other.path]
    assert [p.evaluations for p in one.history] == [
        p.evaluations for p in other.history
    ]


@pytest.mark.parametrize("name", METHODS)
def test_budgets_are_kept(name: str) -> None:
    asked = fresh("mlp")
    run_on(asked, name, 0, 10)
    assert asked.evaluations <= 10


@pytest.mark.parametrize("name", METHODS)
def test_the_outcome_is_that_of_the_path(name: str) -> None:
    best = run("sgd", name, 0, 20)
    again = fresh("sgd")
    assert again.outcome(again.state(best.path)) == best.outcome


def test_seeds_differ() -> None:
    found = {
        tuple(p.evaluations for p in run("mlp", "random", seed, 40).history)
        for seed in range(4)
    }
    assert len(found) > 1


def test_exhaustive_search_says_when_it_did_not_see_everything() -> None:
    asked = fresh("mlp")
    search = Exhaustive(asked, Best(asked))
    search.run(Budget(evaluations=20))
    assert not search.complete
    assert search.count <= 20


def test_exhaustive_search_up_to_a_depth() -> None:
    asked = fresh("mlp")
    shallow = Exhaustive(asked, Best(asked), depth=1)
    shallow.run(Budget(evaluations=3000))
    assert shallow.complete
    reached = {asked.fingerprint(asked.state((move,))) for move in asked.fixed}
    assert shallow.count == 1 + len(reached)
    assert len(shallow.best.path) == 1


def test_progress_is_told() -> None:
    heard: list[int] = []
    asked = fresh("sgd")
    best = Best(asked, lambda p: heard.append(p.evaluations))
    METHODS["greedy"](asked, best, Budget(evaluations=10), 0)
    assert heard == sorted(heard)
    assert len(heard) > 3


def test_unknown_methods_are_refused_with_the_names() -> None:
    with pytest.raises(PartitionError, match=r"annealing.*beam.*mcts"):
        method_named("annealing")


def test_the_integer_program_respects_the_memory_limit() -> None:
    """With half the memory of what is fastest it finds something else that fits."""
    fastest = run("mlp", "integer", 0, 100).outcome
    limit = 0.9 * fastest.peak_bytes
    name, axes, device = SPACES["mlp"]
    tight = problem(name, axes, device, memory_limit=limit)
    found = run_on(tight, "integer", 0, 100).outcome
    assert found.fits
    assert found.peak_bytes <= limit
    assert found.seconds >= fastest.seconds
