"""`partir search`: find a schedule, show it, and write it as Python."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from partir.api.partitioned import Partitioned
from partir.cli.sources import partition_arguments, require_device
from partir.errors import PartitionError
from partir.files import require_writable, write_whole
from partir.mesh import Mesh
from partir.search.methods import METHODS
from partir.search.problem import Problem
from partir.search.result.wording import moves_text
from partir.tactics.automatic import AutomaticPartition
from partir.tactics.source import schedule_source, tactic_source


def add_search_arguments(search: ArgumentParser) -> None:
    """What only this command takes."""
    search.add_argument("--axes", help="mesh axes to use, as B,M (all)")
    search.add_argument("--seconds", type=float, help="stop after so many (30)")
    search.add_argument(
        "--evaluations", type=int, help="partitions to try: the reproducible budget"
    )
    search.add_argument(
        "--memory-limit", type=float, metavar="GB", help="of one device (the device's)"
    )
    search.add_argument("--seed", type=int, default=0, help="of random choices (0)")
    search.add_argument(
        "--goal", choices=["time", "memory"], default="time", help="what to save (time)"
    )
    search.add_argument(
        "--values", action="append", metavar="PATTERN", help="arguments to tile (all)"
    )
    search.add_argument(
        "--method",
        default="mcts",
        help=f"how to search: {', '.join(METHODS)}, or your own (mcts)",
    )
    search.add_argument(
        "--workers", type=int, default=1, help="processes with seeds of their own (1)"
    )
    search.add_argument("-o", "--output", help="Python file to write the schedule to")
    search.add_argument(
        "--show-moves",
        action="store_true",
        help="named dimensions and the moves over them; no search",
    )
    search.add_argument("--json", action="store_true", help="the result as JSON")
    search.set_defaults(run_command=run_search)


def run_search(args: Namespace) -> None:
    """Search, print what was found, write it if asked to."""
    require_device(args, "search")
    if args.show_moves:
        _show_moves(args)
        return
    if args.output:  # before, not after
        require_writable(args.output)
    auto = _tactic(args)
    partitioned = partition_arguments(args, [auto])
    assert auto.result is not None
    source = schedule_source(auto.found, _title(args, auto))
    if args.output:
        write_whole(args.output, source)
    if args.json:
        print(json.dumps(auto.to_json(), indent=1))
        return
    print(partitioned)  # says why, if nothing was found
    print()
    if auto.found:
        print("\n".join(map(tactic_source, auto.found)), end="\n\n")
    print(f"{auto.result.evaluations} partitions tried")
    if args.output:
        print(f"wrote {args.output}", file=sys.stderr)


def _tactic(args: Namespace) -> AutomaticPartition:
    limit = None if args.memory_limit is None else args.memory_limit * 1e9
    no_budget = args.seconds is None and args.evaluations is None
    return AutomaticPartition(
        _axes(args),
        evaluations=args.evaluations,
        seconds=30.0 if no_budget else args.seconds,
        memory_limit=limit,
        seed=args.seed,
        goal=args.goal,
        values=args.values,
        method=args.method,
        workers=args.workers,
    )


def _axes(args: Namespace) -> list[str]:
    if args.mesh is None:
        raise PartitionError("--mesh is missing: write for example --mesh B=4,M=2")
    if args.axes is None:
        return list(Mesh.parse(args.mesh))
    return [axis.strip() for axis in args.axes.split(",") if axis.strip()]


def _title(args: Namespace, auto: AutomaticPartition) -> str:
    assert auto.result is not None
    outcome = auto.result.outcome
    after = f", after {args.schedule}" if args.schedule else ""
    return (
        f"Found for {args.model} on {args.mesh} of {args.device}{after}.\n\n"
        f"Predicted: {outcome.seconds * 1e3:.4g} ms per step, "
        f"{outcome.peak_bytes / 1e9:.3g} GB per device.\n"
    )


def _show_moves(args: Namespace) -> None:
    partitioned: Partitioned = partition_arguments(args)
    step = partitioned.steps[-1]
    device = step.setting.require_device()
    count = len(partitioned.program.arguments)
    donated = step.setting.donated() or [False] * count
    problem = Problem(step.state, _axes(args), device, donated)
    lines = list(moves_text(problem))
    print(json.dumps({"moves": lines}, indent=1) if args.json else "\n".join(lines))
