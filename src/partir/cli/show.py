"""`partir show`: the per-tactic table and what lies behind it."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from partir.api.overview import overview
from partir.api.partitioned import Partitioned
from partir.cli.sources import partition_arguments, require_device
from partir.explain.tallies import Tallies
from partir.partition.values import Named, Value
from partir.spmd.printer import tiling_text


def run_show(args: Namespace) -> None:
    """Print the table, and what else was asked for."""
    if args.memory:
        require_device(args, "--memory")
    partitioned = partition_arguments(args)
    if args.json:
        print(json.dumps(_as_data(partitioned, args), indent=1))
        return
    print(overview(partitioned, most=10, rest="--json lists all"))
    if args.names:
        print()
        print("\n".join(_table(_names(partitioned))))
    if args.addresses:
        print()
        print("\n".join(_table(_addresses(partitioned))))
    if args.memory:
        print()
        print("\n".join(_alive(partitioned, args.memory)))
    if args.by:
        print()
        print(_by(partitioned, args.by))
    if args.core:
        print()
        print(partitioned.core_text())
    if args.spmd:
        print()
        print(partitioned.spmd_text())


def _alive(partitioned: Partitioned, most: int) -> list[str]:
    """What is in memory at the peak, the largest first."""
    alive = partitioned.estimate.alive_at_peak
    rest = sum(one.bytes for one in alive[most:])
    lines = ["alive at the peak, in bytes:", *map(str, alive[:most])]
    if rest:
        lines.append(f"{rest:>14,}  {len(alive) - most} more")
    return lines


def _by(partitioned: Partitioned, what: str) -> Tallies:
    return partitioned.by_source() if what == "source" else partitioned.by_scope()


def _names(partitioned: Partitioned) -> list[dict[str, Any]]:
    """Arguments and results as they lie on the devices, and tags."""
    program, spmd = partitioned.program, partitioned.spmd
    pairs = [
        *zip(program.arguments, spmd.in_tilings, strict=True),
        *zip(program.results, spmd.out_tilings, strict=True),
    ]
    ports = [
        {
            "name": port.name,
            "shape": list(port.visible(program.types[port.value].shape)),
            "dtype": port.dtype,
            "tiling": [list(axes) for axes in tiling[: port.rank]],
        }
        for port, tiling in pairs
    ]
    tags = partitioned.steps[-1].names.tags
    return [*ports, *(_inner(partitioned, tag) for tag in tags)]


def _addresses(partitioned: Partitioned) -> list[dict[str, Any]]:
    inner = partitioned.steps[-1].names.matching("%**")
    return [_inner(partitioned, named) for named in inner]


def _inner(partitioned: Partitioned, named: Named) -> dict[str, Any]:
    name, number, dims = named
    step = partitioned.steps[-1]
    value = Value(step.state, step.names, number, dims, name)
    return {
        "name": value.name,
        "shape": list(value.shape),
        "dtype": value.dtype,
        "tiling": [list(axes) for axes in value.tiling],
        "source": value.source,
    }


def _table(values: list[dict[str, Any]]) -> list[str]:
    width = max((len(value["name"]) for value in values), default=0)
    lines = []
    for value in values:
        shape = ",".join(map(str, value["shape"]))
        tiling = tiling_text(tuple(tuple(axes) for axes in value["tiling"]))
        source = f"  # {value['source']}" if "source" in value else ""
        name = f"{value['name']:{width}}"
        lines.append(f"{name}  {value['dtype']}[{shape}]{tiling}{source}")
    return lines


def _as_data(partitioned: Partitioned, args: Namespace) -> dict[str, Any]:
    data: dict[str, Any] = {
        "program": partitioned.program.name,
        "mesh": partitioned.mesh.axes,
        "steps": [
            {
                "name": step.name,
                "collectives": step.collectives,
                "bytes_communicated": step.bytes_communicated,
                "work": step.work,
                "work_by_axis": step.work_by_axis,
                "conflicts": [repr(conflict) for conflict in step.conflicts],
                "actions": [str(action) for action in step.actions],
                **({"estimate": step.estimate.as_data()} if args.device else {}),
            }
            for step in partitioned.steps
        ],
        "replicated_ops": [str(op) for op in partitioned.replicated_ops],
        "unknown_trip_counts": list(partitioned.unknown_trip_counts),
        "notes": list(partitioned.program.notes),
    }
    if args.names:
        data["names"] = _names(partitioned)
    if args.addresses:
        data["addresses"] = _addresses(partitioned)
    if args.memory:
        alive = partitioned.estimate.alive_at_peak[: args.memory]
        data["alive_at_peak"] = [asdict(one) for one in alive]
    if args.by:
        data[f"by_{args.by}"] = _by(partitioned, args.by).to_json()
    if args.core:
        data["core"] = partitioned.core_text()
    if args.spmd:
        data["spmd"] = partitioned.spmd_text()
    return data
