"""`partir fuzz`: random programs and schedules, and whether all oracles agree."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.progress import Progress

from partir.cli.demo import virtual_devices
from partir.errors import PartitionError
from partir.fuzz import Found, Report, run, written
from partir.fuzz.campaign import EVERY

_SHOWN = 5  # schedules whose results are not all proved


def add_fuzz(commands: Any) -> None:
    """Describe the command."""
    fuzz = commands.add_parser(
        "fuzz",
        help="random programs and schedules, held against one device",
        description="Draw programs, meshes and schedules by a seed. The source, Core's "
        "sequential meaning, the device-local program in lockstep and, for some, on "
        "virtual devices must agree, and the verifier with them; a failure is shrunk "
        "and printed as a test. Exit code 1 if one was found.",
    )
    fuzz.add_argument("--programs", type=int, default=100, help="how many (100)")
    fuzz.add_argument("--seed", type=int, default=0, help="of the first program (0)")
    fuzz.add_argument("--seconds", type=float, help="stop after the program under way")
    fuzz.add_argument(
        "--devices-every",
        type=int,
        default=EVERY,
        metavar="N",
        help=f"of N programs run one on virtual devices ({EVERY}; 0 for none)",
    )
    fuzz.add_argument(
        "--strict", action="store_true", help="what is not proved is a failure, too"
    )
    fuzz.add_argument("--json", action="store_true", help="the result as JSON")
    fuzz.set_defaults(run_command=run_fuzz)


def run_fuzz(args: Namespace) -> int:
    """Try programs; 1 if something disagrees."""
    if args.programs < 1 or args.seed < 0 or args.devices_every < 0:
        raise PartitionError(
            "--programs must be at least 1, --seed and --devices-every at least 0"
        )
    if args.seconds is not None and args.seconds <= 0:
        raise PartitionError("--seconds must be more than 0")
    virtual_devices()
    report = _followed(args)
    print(json.dumps(_as_json(report), indent=1) if args.json else _text(report))
    return 1 if report.found or (args.strict and report.unproved) else 0


def _followed(args: Namespace) -> Report:
    """Run with a progress bar, if somebody looks."""
    console = Console(file=sys.stderr)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("programs", total=args.programs)

        def told(report: Report) -> None:
            shown = f"programs ({len(report.found)} failed)"
            progress.update(task, completed=report.programs, description=shown)

        return run(
            args.seed, args.programs, args.seconds, every=args.devices_every, told=told
        )


def _text(report: Report) -> str:
    parts = [_one(found) for found in report.found]
    last = report.first + report.programs - 1
    parts.append(
        f"{report.programs} programs (seeds {report.first} to {last}) under "
        f"{report.schedules} schedules: "
        f"{len(report.found) or 'no'} failure{'' if len(report.found) == 1 else 's'}"
    )
    if report.refused:
        parts[-1] += f"; {report.refused} not run, since XLA refuses the source"
    known = report.results
    parts.append(
        f"results compared: {known['exact']} exactly, {known['rough']} up to rounding; "
        f"{known['loose']} not, where rounding decides or nothing is promised"
    )
    left = f"{len(report.unproved)} schedules have results that are not"
    parts.append(
        f"results proved: {report.proved}; {left if report.unproved else 'all of them'}"
    )
    parts += [
        f"  program {one.seed}, schedule {one.schedule}: {one.reason}"
        for one in report.unproved[:_SHOWN]
    ]
    more = len(report.unproved) - _SHOWN
    return "\n".join([*parts, *([f"  and {more} more"] if more > 0 else [])])


def _one(found: Found) -> str:
    test = written(found.case, found.failure)
    return f"program {found.seed}: {found.failure}\n\n{test}\n"


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "first_seed": report.first,
        "programs": report.programs,
        "refused": report.refused,
        "schedules": report.schedules,
        "seconds": round(report.seconds, 1),
        "results": dict(report.results),
        "proved": report.proved,
        "unproved": [asdict(one) for one in report.unproved],
        "failures": [
            {
                "seed": found.seed,
                "stage": found.failure.stage,
                "what": found.failure.what,
                "test": written(found.case, found.failure),
            }
            for found in report.found
        ],
    }
