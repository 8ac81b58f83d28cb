"""All ways to search, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from partir.errors import PartitionError
from partir.search.methods.baselines import Beam, Exhaustive, Greedy, Random
from partir.search.methods.best import Best, Budget, Listener
from partir.search.methods.integer import IntegerProgram
from partir.search.methods.tree import TreeSearch
from partir.search.problem import Problem


class Search(Protocol):
    """A search: `run` may be interrupted, `best` is what it has found so far."""

    best: Best

    def run(self, budget: Budget) -> Best:
        """Search until the budget is spent or nothing is left to try."""
        ...


Method = Callable[[Problem, int, Listener | None], Search]
"""Makes a search of a problem, a seed and a listener."""

METHODS: dict[str, Method] = {
    "mcts": TreeSearch,
    "greedy": Greedy,
    "random": Random,
    "beam": Beam,
    "exhaustive": Exhaustive,
    "integer": IntegerProgram,
}


def method(name: str) -> Method:
    """The way of searching with this name, or a PartitionError listing them."""
    if name not in METHODS:
        raise PartitionError(
            f"no search method {name!r}; there are {', '.join(sorted(METHODS))}"
        )
    return METHODS[name]
