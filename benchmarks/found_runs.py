"""Found strategies, run: does a predicted gain over the experts show in measured time?

    python -m benchmarks.found_runs [--models mlp,mixer] [--evaluations 300]

Models of `benchmarks.models.suite` at sizes that eight virtual CPU devices can run, on
one mesh, under a spec that is calibrated just before (see `simulator_accuracy` for what
that measures). For each: the expert schedule predicted best, and what the search finds;
predicted and measured, all in turn so that they see the same noise, and whether one
step gives the loss of one device.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

# Sets the number of virtual devices, so before jax.
from benchmarks import simulator_accuracy as accuracy  # isort: skip

import jax
import numpy as np

import partir
from benchmarks.chosen import names
from benchmarks.models import suite
from benchmarks.tables import format_table

AXES = {"B": 4, "M": 2}


def compare(model: Any, device: Any, args: argparse.Namespace) -> list[object]:
    """One line of the table."""
    done = {
        name: suite.partitioned(model, schedule, AXES, device=device)
        for name, schedule in model.schedules().items()
    }
    expert = min(done, key=lambda name: done[name].estimate.seconds)
    auto = partir.AutomaticPartition(tuple(AXES), evaluations=args.evaluations)
    pair = {
        expert: done[expert],
        "found": suite.partitioned(model, [auto], AXES, device=device),
    }
    compiled = {name: one.compile() for name, one in pair.items()}
    clock = accuracy.CLOCKS[args.clock]
    times: dict[str, list[float]] = {name: [] for name in pair}
    for _ in range(args.rounds):
        for name, one in pair.items():
            times[name] += accuracy.time_steps(one, compiled[name], clock)
    predicted = [one.estimate.seconds for one in pair.values()]
    measured = [min(found) for found in times.values()]
    print("\n".join(tactic.name for tactic in auto.found), file=sys.stderr)
    return [
        model.name,
        expert,
        *(f"{seconds * 1e3:.1f}" for seconds in (*predicted, *measured)),
        f"{predicted[1] / predicted[0]:.2f}",
        f"{measured[1] / measured[0]:.2f}",
        f"{loss_error(model, pair['found'], compiled['found']):.1e}",
    ]


def loss_error(model: Any, done: Any, compiled: Any) -> float:
    """Relative difference of the loss from that of one device, on random arguments."""
    rng = np.random.default_rng(0)

    def filled(leaf: Any) -> Any:
        if np.issubdtype(leaf.dtype, np.floating):
            return abs(rng.normal(size=leaf.shape)).astype(leaf.dtype) * 0.01
        return rng.integers(0, 4, leaf.shape).astype(leaf.dtype)

    given = jax.tree.map(filled, model.args)
    *_, want = jax.jit(model.step)(*given)
    *_, got = compiled(*done.shard(*given))
    return float(abs(np.asarray(got) - np.asarray(want)) / abs(np.asarray(want)))


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="names, by default all")
    parser.add_argument("--evaluations", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--clock", choices=list(accuracy.CLOCKS), default="wall")
    args = parser.parse_args(argv)
    models = {model.name: model for model in suite.large()}
    wanted = names(parser, args.models, models, ",")
    device = accuracy.calibrated(False, accuracy.CLOCKS[args.clock])
    rows = [compare(models[name], device, args) for name in wanted]
    head = (
        "model",
        "best expert",
        "predicted ms",
        "found, predicted",
        "measured ms",
        "found, measured",
        "predicted ratio",
        "measured ratio",
        "loss off by",
    )
    print(format_table(head, rows))


if __name__ == "__main__":
    main()
