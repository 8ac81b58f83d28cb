"""The whole way of a program, one line per stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from partir.execute.device_module import export
from partir.execute.module import Module
from partir.ir.core import Program
from partir.ir.garbage import collection_paused
from partir.mesh import Mesh
from partir.partition.actions import Action, Partition, Share
from partir.partition.complete import complete
from partir.partition.model_decisions import ModelDecisions, has_decisions
from partir.partition.state import State
from partir.partition.values import OpView, Values
from partir.report.sharing import Sharing, sharing
from partir.rules.nest import Tiling
from partir.rules.user import require_rules_fit
from partir.simulate.estimate import Estimate, Setting
from partir.spmd.program import SpmdProgram
from partir.spmd.stages import lower_completed, lower_state
from partir.tactics.schedule import Schedule, tactic_name


@dataclass(frozen=True)
class Step:
    """The partition as it was after one tactic, and the way from there to a module.

    `state`, `completed`, `spmd` and `module` are stages, each made of the one before
    when it is read. Figures are computed when read, too.
    """

    name: str
    state: State
    actions: tuple[Action, ...]
    names: Values
    setting: Setting = field(default_factory=Setting)
    found: tuple[Any, ...] = ()  # manual tactics that an automatic one found
    notes: tuple[str, ...] = ()  # what the tactic has to say of itself

    @cached_property
    def completed(self) -> State:
        """The same with what propagation left decided, as it is lowered."""
        return complete(self.state)

    @cached_property
    def spmd(self) -> SpmdProgram:
        """The SPMD program after this tactic."""
        return lower_completed(self.completed)

    @cached_property
    def module(self) -> Module:
        """The device-local StableHLO after this tactic."""
        return export(self.spmd)

    @property
    def collectives(self) -> dict[str, int]:
        """Executed counts on one device, by kind."""
        return dict(self.spmd.collectives)

    @property
    def bytes_communicated(self) -> int:
        """Bytes that one device sends in one call."""
        return self.spmd.bytes_communicated

    @cached_property
    def sharing(self) -> Sharing:
        """What there is to compute, and what all devices together do of it."""
        return sharing(self.spmd)

    @property
    def work(self) -> float:
        """Flops of a device x devices / flops of the whole program; 1.0 is perfect."""
        return self.sharing.work

    @property
    def work_by_axis(self) -> dict[str, float]:
        """The same for each axis alone; 1.0: it divides everything."""
        return self.sharing.work_by_axis

    @property
    def conflicts(self) -> tuple[OpView, ...]:
        """Ops that propagation left, with their evidence."""
        return tuple(
            OpView(self.state, self.names, conflict)
            for axis in self.state.mesh
            for conflict in self.state.conflicts[axis]
        )

    @cached_property
    def estimate(self) -> Estimate:
        """Time and memory on the device that was said; a PartitionError if none was."""
        return self.setting.estimate(self.spmd)


@collection_paused
def run_schedule(
    program: Program,
    mesh: Mesh,
    schedule: Schedule,
    setting: Setting | None = None,
    share: Share | None = None,
) -> tuple[Partition, list[Step]]:
    """Apply the tactics in order; each that raises leaves nothing behind."""
    require_rules_fit(program)
    setting = setting or Setting()
    partition = Partition(program, mesh, lower_state, setting, share)
    names = partition.names
    steps: list[Step] = []
    given = [ModelDecisions()] if has_decisions(partition) else []
    for number, tactic in enumerate([*given, *schedule.flat()]):
        name = tactic_name(tactic)
        partition.tactics.append(name)
        partition.state.step = number
        before = len(partition.actions), len(partition.found), len(partition.notes)
        apply_tactic(partition, tactic)
        actions = tuple(partition.actions[before[0] :])
        found = tuple(partition.found[before[1] :])
        notes = tuple(partition.notes[before[2] :])
        state = partition.state.copy()
        steps.append(Step(name, state, actions, names, setting, found, notes))
    if not steps:
        steps.append(Step("no tactic", partition.state, (), names, setting))
    return partition, steps


def apply_tactic(partition: Partition, tactic: Any) -> None:
    """Apply one tactic and propagate; undo it if it raises."""
    mark = partition.mark()
    try:
        tactic.apply(partition)
        partition.propagate()
    except BaseException:
        partition.undo(mark)
        raise


def spec_axes(tiling: Tiling, rank: int) -> Sequence[Any]:
    """A tiling as PartitionSpec's entries, trailing whole dimensions left out."""
    entries = [axes[0] if len(axes) == 1 else (axes or None) for axes in tiling[:rank]]
    while entries and entries[-1] is None:
        entries.pop()
    return entries
