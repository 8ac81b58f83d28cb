"""Is the schedule predicted best the best one, on models that nobody mended by?

    python -m benchmarks.held_out_choice [--models gpt2 vit …] [--clock cpu] [--json]

Five models of packages, as their authors wrote them, run under the schedules and meshes
of `benchmarks.simulator_accuracy`, which says how, where these make use of all devices;
Megatron's splits are named below. Run it twice for two runs: each calibrates by itself.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import jax.numpy as jnp

import partir
from benchmarks import simulator_accuracy as accuracy
from benchmarks.models.packages import MODELS, Sizes
from benchmarks.models.suite import Model
from benchmarks.models.training import train_with, training_state

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


def main(argv: list[str] | None = None) -> None:
    """Calibrate, run every schedule, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=SPLITS, default=list(SPLITS))
    parser.add_argument("--clock", choices=accuracy.CLOCKS, default="wall")
    parser.add_argument("--rounds", type=int, default=3, help="turns of all schedules")
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    options = parser.parse_args(argv)
    clock = accuracy.CLOCKS[options.clock]
    spec = accuracy.calibrated(False, clock)
    rows = [
        row
        for model in models(options.models)
        for row in accuracy.time_model(model, spec, options.rounds, clock, idle=False)
    ]
    found = {"spec": asdict(spec), "times": [asdict(row) for row in rows]}
    print(json.dumps(found, indent=1) if options.json else accuracy.show_times(rows))


if __name__ == "__main__":
    main()
