"""`partir show`: the per-tactic table and what lies behind it."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from partir.api.as_data import addresses_data, names_data, remarks_data, step_data
from partir.api.overview import overview
from partir.api.partitioned import Partitioned
from partir.cli.sources import (
    at_least_one,
    partition_arguments,
    require_device,
    terminal_width,
)
from partir.explain.tallies import Tallies
from partir.partition.patterns import matcher
from partir.spmd.printer import tiling_text


def add_show_arguments(show: ArgumentParser) -> None:
    """What is shown beside the table."""
    show.add_argument("--core", action="store_true", help="PartIR:Core as text")
    show.add_argument("--spmd", action="store_true", help="the SPMD program as text")
    show.add_argument(
        "--names", action="store_true", help="names, shapes, dtypes and layouts"
    )
    show.add_argument(
        "--addresses",
        action="store_true",
        help="inner values by %% address, with their layouts and source lines",
    )
    show.add_argument(
        "--by",
        choices=["source", "scope"],
        help="what each source line or module path computes, sends and holds",
    )
    show.add_argument(
        "--order",
        choices=["bytes", "seconds", "flops", "memory"],
        default="bytes",
        help="of --by: what the first has most of (bytes)",
    )
    show.add_argument(
        "--match",
        metavar="PATTERN",
        help="of --names, --addresses and --by: only such names and places",
    )
    show.add_argument(
        "--memory",
        type=at_least_one,
        nargs="?",
        const=20,
        metavar="N",
        help="the N largest values at the peak of memory (20; with --device)",
    )
    show.add_argument("--json", action="store_true", help="the same as JSON")
    show.set_defaults(run_command=run_show)


def run_show(args: Namespace) -> None:
    """Print the table, and what else was asked for."""
    if args.memory:
        require_device(args, "--memory")
    partitioned = partition_arguments(args)
    if args.json:
        print(json.dumps(_as_data(partitioned, args), indent=1))
        return
    width = terminal_width()
    print(overview(partitioned, most=10, rest="--json lists all", width=width))
    if args.names:
        print()
        print("\n".join(_table(_matching(names_data(partitioned), args))))
    if args.addresses:
        print()
        print("\n".join(_table(_matching(addresses_data(partitioned), args))))
    if args.memory:
        print()
        print("\n".join(_alive(partitioned, args.memory)))
    if args.by:
        print()
        print(_by(partitioned, args).table(width))
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


def _by(partitioned: Partitioned, args: Namespace) -> Tallies:
    by = partitioned.by_source if args.by == "source" else partitioned.by_scope
    found = by(args.order)
    if args.match is None:
        return found
    wanted = matcher(args.match)
    return Tallies(one for one in found if wanted.fullmatch(one.where))


def _matching(values: list[dict[str, Any]], args: Namespace) -> list[dict[str, Any]]:
    if args.match is None:
        return values
    wanted = matcher(args.match)
    return [value for value in values if wanted.fullmatch(value["name"])]


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
        "steps": [step_data(step) for step in partitioned.steps],
        **remarks_data(partitioned),
    }
    if args.names:
        data["names"] = _matching(names_data(partitioned), args)
    if args.addresses:
        data["addresses"] = _matching(addresses_data(partitioned), args)
    if args.memory:
        alive = partitioned.estimate.alive_at_peak[: args.memory]
        data["alive_at_peak"] = [asdict(one) for one in alive]
    if args.by:
        data[f"by_{args.by}"] = _by(partitioned, args).to_json()
    if args.core:
        data["core"] = partitioned.core_text()
    if args.spmd:
        data["spmd"] = partitioned.spmd_text()
    return data
