"""Automatic tactics against experts' schedules.

    python -m benchmarks.search [--models T32,UNet] [--skip 0] [--targets 1]
                                [--seeds 10] [--seconds 60] [--evaluations 3000]
                                [--json]

For every model (`benchmarks.models.experts`) at full size, on each of its meshes of
devices: the best expert schedule that fits in memory, by predicted step time, and what
the search finds with each seed. A search *succeeds* when its prediction is at most the
best expert's; reported are how many seeds succeed, after how many evaluations and
seconds, and how the success rate grows with the budget. All figures are of the whole
program, not of its folded form; nothing is run, and names are never looked at.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import partir
from benchmarks.chosen import names
from benchmarks.models.experts import MODELS, Model, Target
from benchmarks.tables import format_table
from partir.search.methods.budget import Budget
from partir.search.run import Result, search

BUDGETS = (50, 100, 200, 400, 800)


@dataclass(frozen=True)
class Expert:
    """What experts' schedules reach on a target."""

    name: str
    seconds: float
    peak_bytes: int
    fits: bool


@dataclass(frozen=True)
class Found:
    """One search: its outcome, and when it first was as good as the expert."""

    seed: int
    seconds: float
    peak_bytes: int
    fits: bool
    evaluations: int
    search_seconds: float
    success_evaluations: int | None
    success_seconds: float | None
    tactics: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A model on a target."""

    model: str
    target: str
    ops: int
    experts: tuple[Expert, ...]
    found: tuple[Found, ...]

    @property
    def best(self) -> Expert:
        """The fastest expert that fits, else the one that needs the least memory."""
        fitting = [one for one in self.experts if one.fits]
        if fitting:
            return min(fitting, key=lambda one: one.seconds)
        return min(self.experts, key=lambda one: one.peak_bytes)

    def ratio(self, found: Found) -> float:
        """Predicted time of what was found over the best expert's."""
        return found.seconds / self.best.seconds

    def success(self, found: Found, evaluations: int) -> bool:
        """Whether a search was as good as the expert within a budget."""
        first = found.success_evaluations
        return first is not None and first <= evaluations


# Measuring


def measure(model: Model, target: Target, args: argparse.Namespace) -> Row:
    """Experts and searches of one model on one target."""
    start, row = against(model, target)
    found = tuple(find(start, row, seed, args) for seed in range(args.seeds))
    return replace(row, found=found)


def against(model: Model, target: Target) -> tuple[Any, Row]:
    """The model with nothing decided, and what experts reach."""
    step, arguments = model.full_case(target)
    start = partir.partition(
        step,
        target.mesh,
        [],
        args=arguments,
        device=target.device,
        donate_argnums=model.donate,
    )
    experts = []
    for name, schedule in model.schedules_on(target.axes, target.batch).items():
        done = partir.partition(
            step,
            target.mesh,
            schedule,
            args=arguments,
            device=target.device,
            donate_argnums=model.donate,
        ).estimate
        experts.append(Expert(name, done.seconds, done.peak_bytes, done.fits))
    ops = len(start.program.ops)
    return start, Row(model.name, str(target), ops, tuple(experts), ())


def find(
    start: Any, row: Row, seed: int, args: argparse.Namespace, method: str = "mcts"
) -> Found:
    """One search from an unpartitioned program."""
    first = start.steps[-1]
    count = len(start.program.arguments)
    began = time.monotonic()
    result = search(
        first.state,
        tuple(start.mesh),
        first.setting.require_device(),
        first.setting.donated() or [False] * count,
        Budget(args.evaluations, args.seconds),
        seed=seed,
        method=method,
    )
    took = time.monotonic() - began
    return _found(row, seed, result, took)


def _found(row: Row, seed: int, result: Result, took: float) -> Found:
    outcome, best = result.outcome, row.best
    # The folded figure differs a little; the last step counts only if the whole does.
    good = outcome.fits >= best.fits and outcome.seconds <= best.seconds
    first = next(
        (
            one
            for one in result.history
            if one.best.fits >= best.fits and one.best.seconds <= best.seconds
        ),
        result.history[-1] if result.history else None,
    )
    return Found(
        seed,
        outcome.seconds,
        outcome.peak_bytes,
        outcome.fits,
        result.evaluations,
        took,
        first.evaluations if good and first else None,
        first.seconds if good and first else None,
        tuple(decision.name for decision in result.decisions),
    )


# Showing


def table(rows: Sequence[Row]) -> str:
    """A line per model and target."""
    head = [
        "model",
        "on",
        "ops",
        "best expert",
        "its step",
        "found, worst seed",
        "ratio",
        "seeds",
        "first success",
        "evaluations/s",
    ]
    lines = [head]
    for row in rows:
        worst = max(row.found, key=lambda one: (not one.fits, one.seconds))
        firsts = [f for f in row.found if f.success_seconds is not None]
        slowest = max((f.success_seconds or 0.0 for f in firsts), default=None)
        rate = sum(f.evaluations for f in row.found) / sum(
            f.search_seconds for f in row.found
        )
        lines.append(
            [
                row.model,
                row.target,
                str(row.ops),
                row.best.name + ("" if row.best.fits else " (no fit)"),
                f"{row.best.seconds * 1e3:.4g} ms",
                f"{worst.seconds * 1e3:.4g} ms" + ("" if worst.fits else " (no fit)"),
                f"{row.ratio(worst):.3f}",
                f"{len(firsts)}/{len(row.found)}",
                "-" if slowest is None else f"{slowest:.1f} s",
                f"{rate:.0f}",
            ]
        )
    return format_table(lines[0], lines[1:])


def budgets(rows: Sequence[Row]) -> str:
    """Success rate against budget."""
    lines = [["model", "on", *(f"{budget} evaluations" for budget in BUDGETS)]]
    for row in rows:
        lines.append(
            [
                row.model,
                row.target,
                *(
                    f"{sum(row.success(f, b) for f in row.found)}/{len(row.found)}"
                    for b in BUDGETS
                ),
            ]
        )
    return format_table(lines[0], lines[1:])


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="names, by default all")
    parser.add_argument("--targets", type=int, help="targets of each model (all)")
    parser.add_argument("--skip", type=int, default=0, help="targets of each model")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--evaluations", type=int, default=3000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    rows = []
    for name in names(parser, args.models, MODELS, ","):
        model = MODELS[name]
        for target in model.targets[args.skip :][: args.targets]:
            row = measure(model, target, args)
            rows.append(row)
            print(_line(row), file=sys.stderr, flush=True)
    if args.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        print(table(rows))
        print()
        print(budgets(rows))


def _line(row: Row) -> str:
    """What was just measured, while the rest goes on."""
    ratios = ", ".join(f"{row.ratio(one):.3f}" for one in row.found)
    tactics = " + ".join(min(row.found, key=lambda one: one.seconds).tactics)
    return f"{row.model} on {row.target}: {ratios} of {row.best.name} by {tactics}"


if __name__ == "__main__":
    main()
