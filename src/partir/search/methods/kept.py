"""Whether what is gathered is kept: decided last, since nothing else depends on it."""

from __future__ import annotations

from partir.search.goal import Outcome
from partir.search.methods.local import is_worth_reading
from partir.search.problem import Path, Problem


def with_kept_gathers(
    problem: Problem, path: Path, outcome: Outcome
) -> tuple[Path, Outcome]:
    """The path, and weights that are gathered once for both passes where that gains.

    Single ones are tried only if not all of them together can be kept.
    """
    for move in problem.kept_moves(path):
        state = problem.follow(path, move)
        reached = problem.outcome(state) if state is not None else outcome
        if is_worth_reading(reached, outcome):
            path, outcome = (*path, move), reached
    return path, outcome
