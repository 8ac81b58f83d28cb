"""A partition as data: everything that a table, a page or another tool shows of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Protocol

from partir.api.overview import ShownRecord
from partir.api.step import Step
from partir.explain.answer import place
from partir.explain.listing import CollectiveUse
from partir.explain.tallies import Tallies
from partir.ir.core import Port, Program
from partir.partition.values import Named, Value
from partir.report.replicated import ReplicatedOp
from partir.rules.nest import Tiling
from partir.spmd.program import SpmdProgram
from partir.tactics.schedule import Schedule, tactic_text


class DataRecord(ShownRecord, Protocol):
    """What data is made of a `Partitioned`."""

    @property
    def spmd(self) -> SpmdProgram: ...  # noqa: D102

    @property
    def collective_list(self) -> tuple[CollectiveUse, ...]: ...  # noqa: D102

    def by_source(self) -> Tallies: ...  # noqa: D102

    def by_scope(self) -> Tallies: ...  # noqa: D102

    def schedule(self) -> Schedule: ...  # noqa: D102


def partition_data(partitioned: DataRecord) -> dict[str, Any]:
    """All there is to know, but for texts of programs."""
    device = partitioned.steps[-1].setting.device
    return {
        "program": partitioned.program.name,
        "mesh": dict(partitioned.mesh.axes),
        "device": None if device is None else device.name,
        "steps": [step_data(step) for step in partitioned.steps],
        "names": names_data(partitioned),
        "collectives": [use.to_json() for use in partitioned.collective_list],
        "by_source": partitioned.by_source().to_json(),
        "by_scope": partitioned.by_scope().to_json(),
        "schedule": str(partitioned.schedule()),
        **({} if device is None else {"alive_at_peak": _alive(partitioned)}),
        **remarks_data(partitioned),
    }


def _alive(partitioned: DataRecord) -> list[dict[str, Any]]:
    return [asdict(one) for one in partitioned.steps[-1].estimate.alive_at_peak]


def remarks_data(partitioned: DataRecord) -> dict[str, Any]:
    """What stands below the table."""
    return {
        "replicated_ops": [_replicated(op) for op in partitioned.replicated_ops],
        "unknown_trip_counts": list(partitioned.unknown_trip_counts),
        "notes": list(partitioned.program.notes),
    }


def step_data(step: Step) -> dict[str, Any]:
    """The partition after one tactic; with a device, time and memory too."""
    data: dict[str, Any] = {
        "name": step.name,
        "tactic": None if step.tactic is None else tactic_text(step.tactic),
        "found": [tactic_text(tactic) for tactic in step.found],
        "collectives": step.collectives,
        "bytes_communicated": step.bytes_communicated,
        "work": step.work,
        "work_by_axis": step.work_by_axis,
        "conflicts": [repr(conflict) for conflict in step.conflicts],
        "actions": [str(action) for action in step.actions],
        "notes": list(step.notes),
    }
    if step.setting.device is not None:
        data["estimate"] = step.estimate.to_json()
    return data


def _replicated(op: ReplicatedOp) -> dict[str, Any]:
    sources = {
        "source": place(op.source),
        "stopped_source": place(op.stopped_source),
        "text": str(op),
    }
    return {**asdict(op), **sources}


def names_data(partitioned: DataRecord) -> list[dict[str, Any]]:
    """Arguments and results as they lie on the devices, and tags."""
    program, spmd = partitioned.program, partitioned.spmd
    arguments = zip(program.arguments, spmd.in_tilings, strict=True)
    results = zip(program.results, spmd.out_tilings, strict=True)
    return [
        *(_port(program, *one, "argument") for one in arguments),
        *(_port(program, *one, "result") for one in results),
        *(
            inner_data(partitioned, tag, "tag")
            for tag in partitioned.steps[-1].names.tags
        ),
    ]


def _port(program: Program, port: Port, tiling: Tiling, kind: str) -> dict[str, Any]:
    return {
        "name": port.name,
        "kind": kind,
        "shape": list(port.visible(program.types[port.value].shape)),
        "dtype": port.dtype,
        "tiling": [list(axes) for axes in tiling[: port.rank]],
    }


def addresses_data(partitioned: DataRecord) -> list[dict[str, Any]]:
    """Inner values by their addresses."""
    inner = partitioned.steps[-1].names.matching("%**")
    return [inner_data(partitioned, named, "inner") for named in inner]


def inner_data(partitioned: DataRecord, named: Named, kind: str) -> dict[str, Any]:
    """A value inside the program, and where it was written."""
    name, number, dims = named
    step = partitioned.steps[-1]
    value = Value(step.state, step.names, number, dims, name)
    return {
        "name": value.name,
        "kind": kind,
        "shape": list(value.shape),
        "dtype": value.dtype,
        "tiling": [list(axes) for axes in value.tiling],
        "source": value.source,
    }
