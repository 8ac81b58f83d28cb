"""One search from start to end: search folded, confirm unfolded, explain."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

from partir.columns import (
    aligned,
    bytes_text,
    html_page,
    html_table,
    html_text,
    seconds_text,
)
from partir.ir.garbage import collection_paused
from partir.partition.state import State
from partir.search.goal import Outcome
from partir.search.methods.best import Best, Listener
from partir.search.methods.budget import Budget
from partir.search.methods.kept import with_kept_gathers
from partir.search.methods.local import trimmed
from partir.search.problem import Path, Problem
from partir.search.result.decision import Decision
from partir.search.result.decisions import decisions_and_state
from partir.search.result.nothing_better import nothing_better
from partir.search.workers.parallel import ParallelSearch
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.estimate import Estimate
from partir.spmd.stages import lower_state

_CONFIRMING = 6.0  # times what folding takes, for what is done on the whole program
_SURE = 1.002  # times a folded score: how much better than it the whole one may be
_NEAR = 0.97  # of the best folded score: the whole program may rank these otherwise


@dataclass(frozen=True, repr=False)
class Result:
    """What a search found: decisions, and what they cost on the whole program."""

    problem: Problem
    path: Path
    decisions: tuple[Decision, ...]
    folded: Outcome
    outcome: Outcome
    evaluations: int
    history: tuple[Any, ...]
    estimate: Estimate
    reason: str = ""  # why there is no decision, if there is none

    def __str__(self) -> str:
        """What was decided, what it costs, what was tried."""
        return "\n".join([self._title, *aligned(self._rows), *self._reason_lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        parts = [html_table(self._rows), *map(html_text, self._reason_lines)]
        return html_page(self._title, parts)

    def to_json(self) -> dict[str, Any]:
        """As data, with the best so far at each improvement."""
        return {
            **_figures(self.outcome),
            "evaluations": self.evaluations,
            "reason": self.reason,
            "decisions": [
                {"name": one.name, "axis": one.axis, "reason": one.reason}
                for one in self.decisions
            ],
            "history": [
                {
                    "evaluations": one.evaluations,
                    "after_seconds": one.seconds,
                    **_figures(one.best),
                }
                for one in self.history
            ],
        }

    @property
    def _title(self) -> str:
        time, peak = self.outcome.seconds, self.outcome.peak_bytes
        fits = "" if self.outcome.fits else ", does not fit"
        return (
            f"{seconds_text(time)} a step, {bytes_text(peak)} at the peak{fits}; "
            f"{self.evaluations} partitions tried"
        )

    @property
    def _rows(self) -> list[list[str]]:
        made = [[one.name, one.axis, one.reason] for one in self.decisions]
        return [["decision", "axis", "why"], *made]

    @property
    def _reason_lines(self) -> list[str]:
        return [self.reason] if self.reason else []

    def no_fit(self) -> str:
        """That nothing fits, how near it came and what stands in the way."""
        limit = self.problem.goal.memory_limit
        alive = ", ".join(
            f"{one.name} {one.type} ({one.bytes / 1e9:.3g} GB)"
            for one in self.estimate.alive_at_peak[:4]
        )
        return (
            f"no partition over {', '.join(self.problem.axes)} was found that fits: "
            f"the least memory reached is {self.outcome.peak_bytes / 1e9:.3g} GB per "
            f"device, and the limit is {limit / 1e9:.3g} GB. Largest at the peak: "
            f"{alive}. Use more devices, donate the arguments that are replaced, a "
            "smaller batch, jax.checkpoint around layers, or, if later tactics will "
            'make it fit, memory_limit=float("inf")'
        )


def _figures(outcome: Outcome) -> dict[str, Any]:
    return {
        "seconds": outcome.seconds,
        "peak_bytes": outcome.peak_bytes,
        "fits": outcome.fits,
    }


@collection_paused
def search(
    state: State,
    axes: Sequence[str],
    device: DeviceSpec,
    donated: Sequence[bool],
    budget: Budget,
    *,
    memory_limit: float | None = None,
    goal: str | Callable[[Any], float] = "time",
    allowed: set[int] | None = None,
    method: str = "mcts",
    seed: int = 0,
    workers: int = 1,
    executor: Executor | None = None,
    listener: Listener | None = None,
) -> Result:
    """Search on the folded program; the whole program confirms what is found."""
    started = time.monotonic()
    problem = Problem(
        state,
        axes,
        device,
        donated,
        memory_limit=memory_limit,
        goal=goal,
        allowed=allowed,
    )
    folding = time.monotonic() - started
    several = workers if executor is None or workers > 1 else None
    one = ParallelSearch(
        problem, seed, listener, method=method, workers=several, executor=executor
    )
    try:
        best = one.run(_but_for(budget, _CONFIRMING * folding))
    except KeyboardInterrupt:  # anytime: what there is so far counts
        best = one.best
    return _confirmed(problem, state, donated, best, one.evaluations, budget)


def _but_for(budget: Budget, seconds: float) -> Budget:
    """A budget of time without so much of it, but at least half."""
    if budget.seconds is None:
        return budget
    return replace(budget, seconds=max(budget.seconds - seconds, budget.seconds / 2))


def _finished(
    problem: Problem, path: Path, outcome: Outcome
) -> Iterator[tuple[Path, Outcome]]:
    """A path that is to be confirmed, before it the one that keeps what it gathers.

    The whole program may not have room for that.
    """
    shorter = trimmed(problem, path, outcome)
    longer = with_kept_gathers(problem, *shorter)
    yield longer
    if longer != shorter:
        yield shorter


def _confirmed(
    problem: Problem,
    state: State,
    donated: Sequence[bool],
    best: Best,
    evaluations: int,
    budget: Budget,
) -> Result:
    """The best of the leaders on the whole program, as many as there is time for."""
    confirmed: Result | None = None
    leaders = best.to_confirm()
    near = [one for one in leaders if one[1].score >= leaders[0][1].score * _NEAR]
    known = set[float]()  # finished, leaders may be one partition
    for path, folded in (path for one in near for path in _finished(problem, *one)):
        if folded.score in known:
            continue
        known.add(folded.score)
        if confirmed is not None and (
            confirmed.outcome.score >= folded.score * _SURE  # the rest won't be better
            or (budget.seconds is not None and not budget.left(0))
        ):
            break
        decisions, whole = decisions_and_state(problem, path, state)
        estimate = Estimate(lower_state(whole), problem.device, donated)
        outcome = problem.goal.outcome(estimate)
        result = Result(
            problem,
            path,
            tuple(decisions),
            folded,
            outcome,
            evaluations,
            tuple(best.history),
            estimate,
        )
        if confirmed is None or outcome.score > confirmed.outcome.score:
            confirmed = result
    assert confirmed is not None
    if not confirmed.decisions:
        reason = nothing_better(problem, state, donated)
        confirmed = replace(confirmed, reason=reason)
    return confirmed
