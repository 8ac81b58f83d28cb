"""Expert schedules of every model at full size: collectives, time, memory.

    python -m benchmarks.experts [MODEL ...] [--json]

Models and devices are those of ``benchmarks/models/experts.py``. Nothing runs: programs
are traced from shapes, partitioned, and estimated.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import partir
from benchmarks.models.experts import MODELS, Model, Target
from benchmarks.tables import format_table


@dataclass(frozen=True)
class Row:
    """One model under one schedule on one mesh."""

    model: str
    target: str
    schedule: str
    collectives: str
    partition_seconds: float
    estimate_seconds: float
    step_seconds: float
    compute_seconds: float
    communication_seconds: float
    peak_bytes: float
    fits: bool
    mfu: float
    conflicts: int
    replicated: int


def measure(
    model: Model, program: Any, target: Target, schedules: dict[str, Any]
) -> Iterator[Row]:
    """One row per schedule."""
    for name, schedule in schedules.items():
        start = time.perf_counter()
        done = partir.partition(
            program,
            target.mesh,
            schedule,
            donate_argnums=model.donate,
            device=target.device,
        )
        counts = "/".join(map(str, list(done.collectives.values())[:4]))
        lowered = time.perf_counter()
        found = done.estimate
        found.seconds, found.peak_bytes  # noqa: B018 - computed when read
        yield Row(
            model=model.name,
            target=str(target),
            schedule=name,
            collectives=counts,
            partition_seconds=lowered - start,
            estimate_seconds=time.perf_counter() - lowered,
            step_seconds=found.seconds,
            compute_seconds=found.compute_seconds,
            communication_seconds=found.communication_seconds,
            peak_bytes=found.peak_bytes,
            fits=found.fits,
            mfu=found.mfu,
            conflicts=len(done.steps[-1].conflicts),
            replicated=len(done.replicated_ops),
        )


def show(rows: list[Row]) -> str:
    """The table of one model on one mesh, fastest that fits first."""
    header = (
        "schedule",
        "AG/AR/RS/A2A",
        "ms",
        "compute",
        "comm.",
        "GB",
        "MFU",
        "stuck",
    )
    body = [
        (
            row.schedule,
            row.collectives,
            f"{row.step_seconds * 1e3:.1f}",
            f"{row.compute_seconds * 1e3:.1f}",
            f"{row.communication_seconds * 1e3:.1f}",
            f"{row.peak_bytes / 1e9:.1f}" + ("" if row.fits else " (too much)"),
            f"{row.mfu:.1%}",
            row.conflicts + row.replicated,
        )
        for row in sorted(rows, key=lambda row: (not row.fits, row.step_seconds))
    ]
    seconds = max(row.partition_seconds + row.estimate_seconds for row in rows)
    return f"{format_table(header, body)}\npartitioned in at most {seconds:.2f} s"


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Expert schedules at full size.")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Estimate what was asked for and print it."""
    options = parse_arguments(argv)
    if unknown := set(options.models) - set(MODELS):
        print(f"no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
        return 2
    found: list[Row] = []
    for name in options.models or MODELS:
        model = MODELS[name]
        for target in model.targets:
            start = time.perf_counter()
            fn, args = model.full_case(target)
            program = partir.trace(fn, *args)
            seconds = time.perf_counter() - start
            schedules = model.schedules_on(target.axes, target.batch)
            rows = list(measure(model, program, target, schedules))
            found += rows
            if not options.json:
                size = f"{len(program.ops)} ops, traced in {seconds:.1f} s"
                print(f"{name}, {target}, batch {target.batch}: {size}")
                print(show(rows), end="\n\n", flush=True)
    if options.json:
        print(json.dumps([asdict(row) for row in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
