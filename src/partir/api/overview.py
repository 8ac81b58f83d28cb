"""What printing a `Partitioned` and `partir show` show."""

from __future__ import annotations

from typing import Protocol

from partir.api.step import Step
from partir.columns import html_text
from partir.ir.core import Program
from partir.mesh import Mesh
from partir.report.remarks import rule_lines, shortened, skipped_lines, whole_lines
from partir.report.replicated import ReplicatedOp
from partir.report.table import steps_html, steps_table


class ShownRecord(Protocol):
    """What is shown of a `Partitioned`."""

    program: Program
    mesh: Mesh
    steps: tuple[Step, ...]

    @property
    def replicated_ops(self) -> tuple[ReplicatedOp, ...]: ...  # noqa: D102

    @property
    def unknown_trip_counts(self) -> tuple[str, ...]: ...  # noqa: D102


def overview(
    partitioned: ShownRecord, most: int = 3, rest: str = "", width: int | None = None
) -> str:
    """The per-tactic table, and below it at most so many lines of each kind.

    Ops computed whole, values that a tactic left alone, ops without a rule, loops of
    unknown length, notes of tactics and of the importer. `rest` says where all are
    listed; by default, the members that do. Tables are folded to a width.
    """
    table = steps_table(*_shown(partitioned), width)
    return "\n".join([table, *_remarks(partitioned, most, rest)])


def overview_html(partitioned: ShownRecord) -> str:
    """The same for notebooks."""
    remarks = "\n".join(_remarks(partitioned, 3, ""))
    return steps_html(*_shown(partitioned)) + (html_text(remarks) if remarks else "")


def _shown(partitioned: ShownRecord) -> tuple[str, Mesh, tuple[Step, ...], str | None]:
    device = partitioned.steps[-1].setting.device
    name = None if device is None else device.name
    return partitioned.program.name, partitioned.mesh, partitioned.steps, name


def _remarks(partitioned: ShownRecord, most: int, rest: str) -> list[str]:
    whole = partitioned.replicated_ops
    skipped = skipped_lines((step.name, step.actions) for step in partitioned.steps)
    no_rule = rule_lines(partitioned.steps[-1].state.graph, whole)
    loops = [
        f"{place}; estimate_on(device, trip_count=n) counts it n times"
        for place in partitioned.unknown_trip_counts
    ]
    listed = [
        ("whole", whole_lines(whole), "p.replicated_ops"),
        ("skipped", skipped, "p.steps[…].actions"),
        ("no rule", no_rule, "p.program.ops"),
        ("loop of unknown length, counted once", loops, "p.unknown_trip_counts"),
        ("note", partitioned.program.notes, "p.program.notes"),
    ]
    remarks = [
        line
        for label, lines, member in listed
        for line in shortened(label, lines, most, rest or member)
    ]
    said = [f"{step.name}: {n}" for step in partitioned.steps for n in step.notes]
    return [*remarks, *said]
