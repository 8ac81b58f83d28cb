"""`suggest`: the best next actions, with their predicted effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from partir.api.partitioned import Partitioned
from partir.errors import PartitionError
from partir.search.goal import Outcome
from partir.search.problem import Problem
from partir.search.result.decisions import decisions
from partir.search.space.move import Move
from partir.simulate.device.catalogue import devices
from partir.simulate.device.lookup import DeviceLike, as_device
from partir.tactics.automatic import as_tactic
from partir.tactics.choose import Choose
from partir.tactics.gathered import Gathered
from partir.tactics.manual import ManualPartition
from partir.tactics.schedule import tactic_text


@dataclass(frozen=True)
class Suggestion:
    """A tactic that could come next, and what the step would cost then."""

    tactic: ManualPartition | Choose | Gathered
    reason: str
    seconds: float
    peak_bytes: int
    fits: bool

    def __str__(self) -> str:
        """Name and effect."""
        return f"{self.tactic.name}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """As data; the tactic as text."""
        return {
            "tactic": tactic_text(self.tactic),
            "reason": self.reason,
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
            "fits": self.fits,
        }


def suggest(
    partitioned: Partitioned,
    axis: str,
    k: int = 5,
    *,
    device: DeviceLike | None = None,
    memory_limit: float | None = None,
) -> list[Suggestion]:
    """The k best next decisions over an axis, the best first.

    Every candidate is tried on its own: named dimensions of the arguments, loops for
    ops where propagation got stuck, and keeping what is gathered of weights.

    Args:
        partitioned: a partition so far.
        axis: the mesh axis to use.
        k: how many.
        device: a name or spec; by default the partition's.
        memory_limit: bytes of one device; by default the device's.

    Example:
        >>> import jax, partir
        >>> x = jax.ShapeDtypeStruct((512, 256), "float32")
        >>> w = jax.ShapeDtypeStruct((256, 256), "float32")
        >>> p = partir.partition(
        ...     lambda x, w: x @ w, {"B": 4}, [], args=(x, w), device="a100"
        ... )
        >>> best = partir.suggest(p, "B", 1)[0]
        >>> best.tactic.inputs
        {'x': 0}
    """
    if not isinstance(partitioned, Partitioned):
        raise PartitionError(
            "suggest takes a Partitioned, as partir.partition(…) or .partitioned(…) "
            f"give it, got {partitioned!r}"
        )
    if not isinstance(k, int) or k < 1:
        raise PartitionError(f"suggest: k is how many, at least 1, got {k!r}")
    step = partitioned.steps[-1]
    step.state.require_axis(axis)
    spec = step.setting.device if device is None else as_device(device, devices)
    if spec is None:
        spec = step.setting.require_device()
    count = len(partitioned.program.arguments)
    donated = step.setting.donated() or [False] * count
    problem = Problem(step.state, [axis], spec, donated, memory_limit=memory_limit)
    tried: list[tuple[Outcome, Move]] = []
    for move in (*problem.candidates(()), *problem.kept_moves(())):
        state = problem.follow((), move)
        if state is not None:
            tried.append((problem.outcome(state), move))
    tried.sort(key=lambda one: -one[0].score)
    return [_suggestion(partitioned, problem, *one) for one in tried[:k]]


def _suggestion(
    partitioned: Partitioned, problem: Problem, outcome: Outcome, move: Move
) -> Suggestion:
    decision, *_ = decisions(problem, (move,), partitioned.steps[-1].state)
    return Suggestion(
        as_tactic(partitioned.partition_record, decision),
        decision.reason,
        outcome.seconds,
        outcome.peak_bytes,
        outcome.fits,
    )
