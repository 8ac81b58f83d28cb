"""Why a search decided nothing, with the figures of the best that it could have."""

from __future__ import annotations

from collections.abc import Sequence

from partir.partition.state import State
from partir.search.goal import Outcome
from partir.search.problem import Problem
from partir.search.result.decisions import decisions_and_state
from partir.search.result.wording import time_text
from partir.search.space.move import Move
from partir.simulate.estimate import Estimate
from partir.spmd.stages import lower_state

_TRIED = 64  # first moves that are looked at; a search has judged most of them


def nothing_better(problem: Problem, start: State, donated: Sequence[bool]) -> str:
    """What stands in the way of any decision; `start` is the whole program's state."""
    axes = ", ".join(problem.axes)
    best = _best_first(problem)
    if best is None:
        sizes = ", ".join(str(problem.start.mesh[axis]) for axis in problem.axes)
        return (
            f"nothing is left to decide over {axes}: every dimension that may be tiled "
            f"is decided by earlier tactics, kept whole, or does not divide by {sizes}"
        )
    decisions, whole = decisions_and_state(problem, (best[0],), start)
    device = problem.device
    before = Estimate(lower_state(start), device, donated)
    after = Estimate(lower_state(whole), device, donated)
    subject, _, _ = decisions[0].reason.partition(";")
    return (
        f"no decision over {axes} makes it better. The best first one ({subject}) "
        f"takes {time_text(after.seconds)} instead of {time_text(before.seconds)}: "
        f"{_change('computing', before.compute_seconds, after.compute_seconds)}, "
        + _change(
            "communicating", before.communication_seconds, after.communication_seconds
        )
        + _cause(before, after)
    )


def _change(what: str, before: float, after: float) -> str:
    return f"{what} {time_text(before)} -> {time_text(after)}"


def _best_first(problem: Problem) -> tuple[Move, Outcome] | None:
    """The move that does least harm when it is the only one."""
    tried = []
    for move in problem.candidates(())[:_TRIED]:
        state = problem.follow((), move)
        if state is not None:
            tried.append((move, problem.outcome(state)))
    return max(tried, key=lambda one: one[1].score, default=None)


def _cause(before: Estimate, after: Estimate) -> str:
    """What most of the time goes into, if that explains it."""
    kernels = before.cost.kernels
    starting = kernels * before.device.kernel_seconds
    if starting > before.seconds / 2:
        what = "its kernel" if kernels == 1 else f"{kernels:.0f} kernels"
        return (
            f". Starting {what} takes {time_text(starting)} of it, "
            "however small they are: larger arguments are worth dividing"
        )
    saved = before.compute_seconds - after.compute_seconds
    spent = after.communication_seconds - before.communication_seconds
    if spent > 0 and spent >= saved:
        return ". It spends more on communication than it saves in computing"
    return ""
