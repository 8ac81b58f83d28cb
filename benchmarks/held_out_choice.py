"""Is the schedule predicted best the best one, on models that nobody mended by?

    python -m benchmarks.held_out_choice [--models gpt2 vit …] [--clock wall]
        [--runs 2] [--rounds 3] [--json FILE] [--write]

Five models of packages, as their authors wrote them, run under the schedules and meshes
of `benchmarks.simulator_accuracy`, which says how, where these make use of all devices;
Megatron's splits are named below. Each run calibrates by itself, predicts from that,
and times all programs anew; programs are compiled once. The choice is good if the
schedule predicted best is at most 5% slower than the one measured best.

``--write`` puts verdicts and figures into ``benchmarks/results/held_out_choice.md``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import jax.numpy as jnp

import partir
from benchmarks import simulator_accuracy as accuracy
from benchmarks.models.packages import MODELS, Sizes
from benchmarks.models.suite import Model
from benchmarks.models.training import train_with, training_state
from benchmarks.results_page import RESULTS, head, markdown, virtual_devices

Run = list[accuracy.Timed]
GOOD = 0.05  # slower than the best

TEXTS = Sizes(width=256, rows=16, length=64, words=2048)
IMAGES = Sizes(width=256, rows=8)
ROWS = Sizes(width=512, rows=64)


def _columns(*names: str) -> dict[str, int]:
    return {f"params/**/{name}/kernel": 1 for name in names}


# What Megatron splits: heads, and what comes between the two products of a layer. In
# GPT-2, queries, keys and values of all heads are one weight, which is left whole.
SPLITS = {
    "gpt2": {"params/**/c_fc/kernel": 0},
    "llama": _columns("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"),
    "roberta": _columns("query", "key", "value", "intermediate/dense"),
    "vit": _columns("query", "key", "value", "intermediate/dense"),
    "perceptron": {"params/**/linear_0/w": 1, "params/**/linear_2/w": 1},
}
SIZES = {"vit": IMAGES, "perceptron": ROWS}


def models(names: Sequence[str]) -> Iterator[Model]:
    """Training steps with Adam, and the two tactics that schedules are made of."""
    for name in names:
        sizes = SIZES.get(name, TEXTS)
        loss, params, batch = MODELS[name].make(sizes, jnp.dtype("float32"))
        yield Model(
            name,
            train_with(loss),
            (*training_state(params), *batch),
            partir.ManualPartition({"batch/*": 0}, axis="B", name="BP"),
            partir.ManualPartition(SPLITS[name], axis="M", name="MP"),
        )


# Verdicts


@dataclass(frozen=True)
class Verdict:
    """The schedule predicted best beside the one measured best, of one model."""

    model: str
    chosen: str
    best: str
    slower: float  # the chosen one, than the best
    noise: float  # in the median of all schedules

    @classmethod
    def of(cls, rows: Sequence[accuracy.Timed]) -> Verdict:
        """Of all schedules of a model in one run."""
        chosen = min(rows, key=lambda row: row.predicted)
        best = min(rows, key=lambda row: row.seconds)
        noise = statistics.median(row.noise for row in rows)
        slower = accuracy.regret(rows)
        return cls(rows[0].model, _named(chosen), _named(best), slower, noise)

    @property
    def good(self) -> bool:
        """Whether the choice is near the best."""
        return self.slower <= GOOD


def _named(row: accuracy.Timed) -> str:
    return f"{row.schedule} on {row.mesh}"


def verdicts(run: Run) -> list[Verdict]:
    """One for each model."""
    names = dict.fromkeys(row.model for row in run)
    return [Verdict.of([r for r in run if r.model == name]) for name in names]


def page(runs: Sequence[Run]) -> str:
    """How it was made, the verdicts, and all figures."""
    found = [(n + 1, one) for n, run in enumerate(runs) for one in verdicts(run)]
    found.sort(key=lambda pair: pair[1].model)
    header = ("model", "run", "predicted best", "measured best", "slower", "noise")
    table = [
        (v.model, n, v.chosen, v.best, f"{v.slower:.1%}", f"{v.noise:.1%}")
        for n, v in found
    ]
    good = sum(v.good for _, v in found)
    return f"""\
{head("The best schedule by prediction", "held_out_choice", virtual_devices())}

Training steps of models of packages, which nobody mended the simulator by, under nine
schedules each. *slower*: the schedule predicted best, than the one measured best. Each
run calibrates by itself. *noise* is between halves of a schedule's timings, in the
median.

{markdown(header, table)}

{good} of {len(found)} choices are at most {GOOD:.0%} slower than the best, the worst \
{max(v.slower for _, v in found):.1%}.

## Figures

{_figures(runs)}
"""


def _figures(runs: Sequence[Run]) -> str:
    """Milliseconds of every schedule, measured and predicted, in every run."""
    header = ["model", "schedule", "mesh"]
    for number in range(1, len(runs) + 1):
        header += [f"measured {number}", f"predicted {number}"]
    lines = []
    for rows in zip(*runs, strict=True):
        line = [rows[0].model, rows[0].schedule, rows[0].mesh]
        for row in rows:
            line += [f"{row.seconds * 1e3:.1f}", f"{row.predicted * 1e3:.1f}"]
        lines.append(line)
    return f"Milliseconds.\n\n{markdown(header, lines)}"


# Command line


def measure(options: argparse.Namespace) -> list[Run]:
    """Compile every schedule of every model once, then calibrate and time in runs."""
    clock, runs = accuracy.CLOCKS[options.clock], []
    compiled: dict[str, accuracy.Listed] = {}
    for number in range(1, options.runs + 1):
        spec, run = accuracy.calibrated(False, clock), []
        for model in models(options.models):
            if model.name not in compiled:
                found = accuracy.compiled_cases(model, spec, idle=False)
                compiled[model.name] = found
            listed = compiled[model.name]
            run += accuracy.time_cases(model.name, listed, spec, options.rounds, clock)
            print(f"run {number}: {verdicts(run)[-1]}", file=sys.stderr, flush=True)
        runs.append(run)
        if options.json:
            rows = [[asdict(row) for row in each] for each in runs]
            options.json.write_text(json.dumps(rows, indent=1))
    return runs


def main(argv: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=SPLITS, default=list(SPLITS))
    parser.add_argument("--clock", choices=accuracy.CLOCKS, default="cpu")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="turns of all schedules")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    parser.add_argument("--write", action="store_true")
    text = page(measure(options := parser.parse_args(argv)))
    print(text)
    if options.write:
        (RESULTS / "held_out_choice.md").write_text(text)


if __name__ == "__main__":
    main()
