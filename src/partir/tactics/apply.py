"""Applying a schedule: tactics one after another, with a record of each."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from partir.errors import PartirError, PartitionError, user_line
from partir.ir.garbage import collection_paused
from partir.partition.actions import Action, Partition
from partir.partition.model_decisions import ModelDecisions, has_decisions
from partir.partition.state import State
from partir.tactics.schedule import Schedule, Tactic, tactic_name


class Applied(NamedTuple):
    """What one tactic did, and the partition as it was then."""

    name: str
    state: State
    actions: tuple[Action, ...] = ()
    found: tuple[Tactic, ...] = ()  # manual tactics that an automatic one found
    notes: tuple[str, ...] = ()  # what the tactic has to say of itself
    tactic: Tactic | None = None  # as it was given


@collection_paused
def apply_schedule(schedule: Schedule, partition: Partition) -> list[Applied]:
    """Apply the tactics in order, what the model decides first.

    At least one record comes back. A tactic that raises leaves nothing behind.
    """
    model = [ModelDecisions()] if has_decisions(partition) else []
    records: list[Applied] = []
    for number, tactic in enumerate([*model, *schedule.flat()]):
        name = tactic_name(tactic)
        partition.tactics.append(name)
        partition.state.step = number
        before = len(partition.actions), len(partition.found), len(partition.notes)
        apply_tactic(partition, tactic)
        actions = tuple(partition.actions[before[0] :])
        found = tuple(partition.found[before[1] :])
        notes = tuple(partition.notes[before[2] :])
        state = partition.state.copy()
        records.append(Applied(name, state, actions, found, notes, tactic))
    return records or [Applied("no tactic", partition.state)]


def apply_tactic(partition: Partition, tactic: Tactic) -> None:
    """Apply one tactic and propagate; undo it if it raises."""
    mark = partition.mark()
    try:
        _call(tactic, partition)
        partition.propagate()
    except BaseException:
        partition.undo(mark)
        raise


def _call(tactic: Tactic, partition: Partition) -> None:
    """Let a tactic act; what it raises by mistake is an error that names it."""
    name = tactic_name(tactic)
    try:
        answer: object = tactic.apply(partition)  # type: ignore[func-returns-value]
    except PartirError:
        raise
    except Exception as error:
        where = user_line(error)
        raise PartitionError(
            f'tactic "{name}" raised {type(error).__name__}: {error}'
            + (f" (at {where})" if where else "")
            + "; nothing that it did is kept"
        ) from error
    if inspect.isgenerator(answer) or inspect.iscoroutine(answer):
        answer.close()
        raise PartitionError(
            f'tactic "{name}" has done nothing: its apply is a generator or coroutine, '
            "which nobody runs; write a plain function, without yield or await"
        )
