"""Trying a change of a schedule: apply it, lower it, measure it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from partir.errors import PartitionError
from partir.explain.answer import Remedy, StepFigures
from partir.explain.evidence import Evidence
from partir.ir.garbage import collection_paused
from partir.partition.actions import Partition
from partir.partition.model_decisions import ModelDecisions
from partir.partition.state import State
from partir.report.sharing import sharing
from partir.spmd.program import SpmdProgram
from partir.spmd.stages import lower_state
from partir.tactics.schedule import tactic_name

Asked = Callable[[State, SpmdProgram], int]
"""What is asked about, as a number that a remedy makes less."""


@dataclass(frozen=True, slots=True)
class Change:
    """A tactic at a place of the schedule, in place of the one there or before it."""

    action: str
    target: str
    dim: int | None
    tactic: Any
    position: int
    replaces: bool = False
    words: str = ""


class Trials:
    """Tries changes of one partition's schedule."""

    def __init__(self, record: Evidence, asked: Asked) -> None:
        """`asked` reads off a state and its program what a remedy should lessen."""
        self.record, self.asked = record, asked
        self.tactics = [_again(step) for step in record.steps]
        estimate = record.estimate
        self.before = StepFigures(
            estimate.seconds,
            estimate.peak_bytes,
            record.spmd.bytes_communicated,
            record.step.sharing.work,
            asked(record.state, record.spmd),
        )

    def __call__(self, change: Change) -> Remedy | None:
        """What a change does; None if it can't be made."""
        kept = self.tactics[change.position + change.replaces :]
        then = [change.tactic, *(t for several in kept for t in several)]
        try:
            after = self._measured(change.position, then)
        except PartitionError:
            return None
        return self._remedy(change, then, after)

    @collection_paused
    def _measured(self, position: int, then: Sequence[Any]) -> StepFigures:
        record = self.record
        setting = record.step.setting
        start = self._state_before(position)
        partition = Partition(
            record.program,
            start.mesh,
            lower_state,
            setting,
            start=start,
            names=record.names,
        )
        partition.tactics += record.tactics[:position]
        for tactic in then:
            partition.state.step = len(partition.tactics)
            partition.tactics.append(tactic_name(tactic))
            tactic.apply(partition)
            partition.propagate()
        spmd = lower_state(partition.state)
        estimate = setting.estimate(spmd, record.device)
        return StepFigures(
            estimate.seconds,
            estimate.peak_bytes,
            spmd.bytes_communicated,
            sharing(spmd).work,
            self.asked(partition.state, spmd),
        )

    def _state_before(self, position: int) -> State:
        steps = self.record.steps
        if position:
            return steps[position - 1].state.copy()
        return State(steps[0].state.graph, steps[0].state.mesh)

    def _remedy(
        self, change: Change, then: Sequence[Any], after: StepFigures
    ) -> Remedy:
        before = [t for several in self.tactics[: change.position] for t in several]
        schedule = [*before, *then]
        models = sum(isinstance(t, ModelDecisions) for t in schedule)
        own = [t for t in schedule if not isinstance(t, ModelDecisions)]
        step = self.record.steps[change.position] if change.replaces else None
        return Remedy(
            change.action,
            change.target,
            change.dim,
            change.tactic,
            tuple(own),
            len(before) - models,
            None if step is None else step.name,
            self.before,
            after,
            change.words,
        )


def _again(step: Any) -> tuple[Any, ...]:
    """Tactics that give a step again: what was found, without another search."""
    if step.found:
        return tuple(step.found)
    return () if step.tactic is None else (step.tactic,)
