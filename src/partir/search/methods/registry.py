"""The table of search methods: ours, and those that users add."""

from __future__ import annotations

from collections.abc import Callable

from partir.errors import PartitionError
from partir.search.methods.best import Best
from partir.search.methods.budget import Budget
from partir.search.problem import Problem

SearchMethod = Callable[[Problem, Best, Budget, int], object]
"""Searches a problem within a budget, from a seed, and offers `best` what it meets.

It may be interrupted at any time: what it has offered until then counts.
"""

METHODS: dict[str, SearchMethod] = {}


def search_method(name: str) -> Callable[[SearchMethod], SearchMethod]:
    """Add a way of searching, for ``AutomaticPartition(method=name)``.

    It is a function of a problem, the best so far, a budget and a seed. It asks the
    problem for moves (`candidates`), for the partition after one more of them
    (`follow`, None if that changes nothing) and for what that costs (`outcome`), and
    offers every path of moves with its outcome to `best`.

    Example:
        >>> import partir
        >>> @partir.search_method("first gain")
        ... def first_gain(problem, best, budget, seed):
        ...     for move in problem.candidates(()):
        ...         state = problem.follow((), move)
        ...         if state is not None and budget.left(problem.evaluations):
        ...             best.offer((move,), problem.outcome(state))
        >>> partir.AutomaticPartition("B", method="first gain").method
        'first gain'
    """
    if not isinstance(name, str):
        raise PartitionError(
            'search_method takes a name: write @partir.search_method("name")'
        )

    def add(method: SearchMethod) -> SearchMethod:
        known = METHODS.get(name)
        if known is not None and not _is_same(known, method):
            raise PartitionError(
                f'there is a search method "{name}" already: '
                f"{known.__module__}.{known.__qualname__}; choose another name"
            )
        METHODS[name] = method
        return method

    return add


def _is_same(one: SearchMethod, other: SearchMethod) -> bool:
    """Whether this is the same function defined once more: its module was reloaded."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def method_named(name: str) -> SearchMethod:
    """The way of searching with this name, or a PartitionError listing them."""
    if name not in METHODS:
        raise PartitionError(
            f"no search method {name!r}; there are {', '.join(sorted(METHODS))}. "
            f'Add your own with @partir.search_method("{name}")'
        )
    return METHODS[name]
