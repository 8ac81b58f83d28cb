"""The table of search methods: users' own, and that none of ours is forgotten."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

import partir
from partir.search.methods import METHODS, Best, Budget
from partir.search.problem import Problem
from partir.search.workers.parallel import ParallelSearch
from tests.search.problems import problem

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "src/partir/search/methods"


def coin_flips(asked: Problem, best: Best, budget: Budget, seed: int) -> None:
    """Single moves, those that chance picks."""
    flip = random.Random(seed)
    for move in asked.candidates(()):
        state = asked.follow((), move)
        left = budget.left(asked.evaluations)
        if left and flip.random() < 0.8 and state is not None:
            best.offer((move,), asked.outcome(state))


@pytest.fixture
def added() -> Iterator[str]:
    partir.search_method("coin flips")(coin_flips)
    yield "coin flips"
    del METHODS["coin flips"]


@pytest.mark.quick
def test_methods_of_users_search(added: str) -> None:
    auto = partir.AutomaticPartition("B", evaluations=30, method=added)
    sizes = (512, 256), (256, 256)
    args = tuple(jax.ShapeDtypeStruct(size, "float32") for size in sizes)
    done = partir.partition(
        lambda x, w: x @ w, {"B": 4}, [auto], args=args, device="a100"
    )
    assert tuple(done.in_specs[0]) == ("B",)
    assert auto.result is not None
    assert 1 < auto.result.evaluations <= 30


def test_methods_of_users_reach_other_processes(added: str) -> None:
    search = ParallelSearch(problem("sgd", {"B": 4}), method=added, workers=2)
    search.run(Budget(evaluations=10))
    assert search.best.path
    assert search.evaluations > search.problem.evaluations


def test_methods_inside_functions_stay_here() -> None:
    @partir.search_method("local")
    def local(asked: Problem, best: Best, budget: Budget, seed: int) -> None: ...

    try:
        search = ParallelSearch(problem("sgd", {"B": 4}), method="local", workers=2)
        with pytest.raises(partir.PartitionError, match=r"method of your own.*module"):
            search.run(Budget(evaluations=10))
    finally:
        del METHODS["local"]


def test_names_are_taken_once(added: str) -> None:
    partir.search_method(added)(coin_flips)  # the same again: its module was reloaded
    with pytest.raises(partir.PartitionError, match=r'"coin flips" already: .*coin_fl'):
        partir.search_method(added)(METHODS["greedy"])


def test_a_name_is_needed() -> None:
    with pytest.raises(partir.PartitionError, match=r'@partir.search_method\("name"\)'):
        partir.search_method(coin_flips)  # type: ignore[arg-type]


@pytest.mark.quick
def test_all_of_ours_are_imported() -> None:
    """A file in methods/ that `__init__.py` leaves out has no effect for users."""
    imported = (FOLDER / "__init__.py").read_text(encoding="utf-8")
    for path in FOLDER.glob("*.py"):
        if "\n@search_method(" in path.read_text(encoding="utf-8"):
            assert f"{path.stem} as {path.stem}," in imported


@pytest.mark.parametrize("name", METHODS)
def test_each_is_documented(name: str) -> None:
    page = (ROOT / "docs/automatic.md").read_text(encoding="utf-8")
    assert f'`"{name}"`' in page
