"""A schedule of tactics beside all of its actions in one.

    python -m benchmarks.composability [--layers 8] [--write]

The merged tactic takes every action of the schedule and propagates once: all requests
meet at the same time. A schedule propagates after each of its tactics, so that an
earlier one decides before a later one asks. Where two ask different things of one op,
the merged tactic leaves a conflict: what the op reads may have to be gathered.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import partir
from benchmarks.models import mlp, schedules, transformer
from benchmarks.models.transformer import Config
from benchmarks.results_page import RESULTS, head, markdown

MESH = {"B": 4, "M": 2}


@dataclass(frozen=True)
class Merged:
    """Tactics as one: all actions, then one propagation."""

    tactics: Sequence[Any]
    name: str = "merged"

    def apply(self, partition: Any) -> None:
        """Apply what each of them does."""
        for tactic in self.tactics:
            tactic.apply(partition)


def cases(layers: int) -> Iterator[tuple[str, Any, dict[str, list[Any]]]]:
    """Models with their schedules."""
    config = Config.small(layers=layers, biased=True)
    found = {k: v for k, v in schedules.SCHEDULES.items() if "+" in k}
    found |= {"BP+MP+Z3+EMB": schedules.EMBEDDED_SCHEDULES["BP+MP+Z3+EMB"]}
    program = partir.trace(
        transformer.step_for(config), *transformer.example_args(config)[0]
    )
    yield f"transformer, {layers} layers", program, found
    blocks = mlp.Config(blocks=layers)
    program = partir.trace(mlp.train_step, *mlp.example_args(blocks)[0])
    batch, model = mlp.BATCH, mlp.MODEL
    found = {
        "BP+MP": [batch, model],
        "BP+MP+Z2": [batch, model, schedules.Z2],
        "BP+MP+Z3": [batch, model, schedules.Z3],
    }
    yield f"MLP, {layers} blocks", program, found


def rows(layers: int) -> Iterator[tuple[object, ...]]:
    """Both ways, schedule by schedule."""
    for model, program, found in cases(layers):
        for name, tactics in found.items():
            for how, schedule in (("schedule", tactics), ("merged", [Merged(tactics)])):
                done = partir.partition(
                    program, MESH, schedule, donate_argnums=(0, 1), device="tpu_v5e"
                )
                counts = "/".join(map(str, list(done.collectives.values())[:4]))
                yield (
                    model,
                    name,
                    how,
                    len(done.steps[-1].conflicts),
                    len(done.replicated_ops),
                    counts,
                    f"{done.bytes_communicated / 1e6:.1f}",
                    f"{done.work:.2f}",
                    f"{done.estimate.peak_bytes / 2**20:.1f}",
                )


def main() -> None:
    """Partition both ways and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    header = ("model", "tactics", "as", "conflicts", "computed whole")
    header += ("AG/AR/RS/A2A", "MB sent", "work", "peak MiB")
    text = f"""\
{head("One merged tactic beside the schedule", "composability")}

Mesh {partir.Mesh(MESH)}. *work* is the arithmetic of all devices by that of one:
1.00 is perfectly shared out. The peak is predicted for a TPU v5e.

{markdown(header, list(rows(options.layers)))}
"""
    print(text)
    if options.write:
        (RESULTS / "composability.md").write_text(text)


if __name__ == "__main__":
    main()
