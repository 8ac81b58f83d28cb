"""`Step`: what there is to know after one tactic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from partir.api.later import Later
from partir.execute.module import Module
from partir.partition.actions import Action
from partir.partition.state import State
from partir.partition.values import OpView, Values
from partir.report.sharing import Sharing, sharing
from partir.simulate.estimate import Estimate, Setting
from partir.spmd.export_policy import PLAIN, ExportPolicy
from partir.spmd.program import SpmdProgram
from partir.tactics.schedule import Tactic


@dataclass(frozen=True)
class Step:
    """The partition as it was after one tactic, and the way from there to a module.

    `completed`, `spmd` and `module` are stages of the pipeline, each made of the one
    before when it is read. Figures are computed when read, too.
    """

    name: str
    state: State
    actions: tuple[Action, ...]
    found: tuple[Tactic, ...]  # manual tactics that an automatic one found
    notes: tuple[str, ...]  # what the tactic has to say of itself
    tactic: Tactic | None  # as it was given
    names: Values
    setting: Setting
    _completed: Later[State]
    _spmd: Later[SpmdProgram]
    _module: Callable[[ExportPolicy], Module]

    @property
    def completed(self) -> State:
        """The same with what propagation left decided, as it is lowered."""
        return self._completed()

    @property
    def spmd(self) -> SpmdProgram:
        """The SPMD program after this tactic."""
        return self._spmd()

    @property
    def module(self) -> Module:
        """The device-local StableHLO after this tactic, for the device that was said.

        If none was, as it is written for no compiler in particular.
        """
        device = self.setting.device
        return self.module_for(PLAIN if device is None else device.export)

    def module_for(self, policy: ExportPolicy) -> Module:
        """The same, for a compiler."""
        return self._module(policy)

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
