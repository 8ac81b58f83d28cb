"""Predicted memory beside compilers', on models that nobody mended the simulator by.

    python -m benchmarks.held_out_memory cpu|tpu|gpu [--topology v5e:2x4]
        [--only gpt2,vit] [--keep FOLDER] [--kept-only] [--write]

Twelve models of packages, as their authors wrote them, in both regimes (weights larger
than activations, and the reverse), half of them computing in bfloat16, split over eight
devices by batch, and half of them also by ZeRO-3. Nothing runs. For CPUs sizes are
divided. ``--keep`` keeps figures in a folder as `benchmarks.compilers` does, and with
``--kept-only`` nothing more is compiled: the page names what is missing. The models
that the simulator was mended by are listed apart: those of `benchmarks/models`, through
`benchmarks.compilers` and `benchmarks.simulator_accuracy`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp

import partir
from benchmarks.compiled import Compiler
from benchmarks.compilers import (
    DEVICES,
    RESULTS,
    TOPOLOGIES,
    compiler_of,
    devices_of,
)
from benchmarks.models.packages import MODELS, Model, Sizes
from benchmarks.models.schedules import matrices
from benchmarks.models.training import train_with, training_state
from benchmarks.old_names import old_names

AXES = {"B": 8}
BATCH = partir.ManualPartition({"batch/*": 0}, axis="B", name="BP")
SHARDED = partir.ManualPartition(
    {"params/**": matrices, "opt_state/**": matrices}, axis="B", name="Z3"
)


def sizes(model: Model, platform: str) -> Sizes:
    """Of the regime; divided for CPUs."""
    width, rows = (2048, 8) if model.heavy else (768, 64)
    if platform == "cpu":
        return Sizes(width // 4 // 64 * 64, max(rows // 4, AXES["B"]))
    return Sizes(width, rows)


@dataclass(frozen=True)
class Row:
    """A model's memory, predicted and as the compiler says."""

    name: str
    predicted: int
    compiled: int

    @property
    def error(self) -> float:
        """Relative to the compiler's."""
        return self.predicted / self.compiled - 1


def measure(args: argparse.Namespace) -> Iterator[Row]:
    """Compile one after another, without those that are not to be compiled."""
    mesh = devices_of(args.platform, args.topology, AXES)
    device = DEVICES[args.topology.split(":")[0]]
    compiler = compiler_of(args, AXES)
    for name in args.only.split(","):
        with old_names():
            row = _row(name, args.platform, device, mesh, compiler)
        if row is None:
            continue
        print(f"{name}: {row.predicted} {row.compiled} {row.error:+.1%}", flush=True)
        yield row


def _row(
    name: str, platform: str, device: str, mesh: Any, compiler: Compiler
) -> Row | None:
    model = MODELS[name]
    loss, params, batch = model.make(sizes(model, platform), jnp.dtype(model.dtype))
    args = (*training_state(params), *batch)
    done = partir.partition(
        train_with(loss),
        AXES,
        [BATCH, SHARDED] if model.sharded else [BATCH],
        args=args,
        donate_argnums=(0, 1),
        device=device,
        devices=mesh,
        verify="off",
    )
    made = compiler.made(done.compile().lower(*args))
    return Row(name, done.estimate.peak_bytes, made.memory) if made else None


def page(rows: Sequence[Row], args: argparse.Namespace) -> str:
    """The table with how it was made."""
    compilers = {"tpu": ["libtpu"], "gpu": ["jax-cuda12-pjrt"], "cpu": []}
    names = ["jax", "transformers", "dm-haiku", *compilers[args.platform]]
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in names)
    command = f"python -m benchmarks.held_out_memory {' '.join(sys.argv[1:])}"
    lines = [
        f"# Memory of models that nobody mended by: {args.platform} {args.topology}",
        "",
        "| | |",
        "|---|---|",
        f"| command | `{command}` |",
        f"| date | {datetime.date.today()} |",
        f"| versions | {versions} |",
        "| machine | any: nothing is run |",
        "",
        f"Mesh `{partir.Mesh(AXES)}`, two layers. *Heavy*: weights larger than",
        "activations.",
        "",
        "| model | type | heavy | schedule | predicted MiB | compiled MiB | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        model = MODELS[row.name]
        cells = (
            row.name,
            model.dtype,
            "yes" if model.heavy else "no",
            "BP+Z3" if model.sharded else "BP",
            f"{row.predicted / 2**20:.0f}",
            f"{row.compiled / 2**20:.0f}",
            f"{row.error:+.1%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    errors = [abs(row.error) for row in rows]
    median, worst = statistics.median(errors), max(errors)
    lines += ["", f"Median {median:.1%}, worst {worst:.1%}.", ""]
    missing = [name for name in MODELS if name not in {row.name for row in rows}]
    if missing:
        lines += [f"Not compiled: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def main() -> None:
    """Compile what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("platform", choices=tuple(TOPOLOGIES))
    parser.add_argument("--topology", default=None)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for what was compiled")
    parser.add_argument("--kept-only", action="store_true")
    args = parser.parse_args()
    args.topology = args.topology or TOPOLOGIES[args.platform]
    rows = list(measure(args))
    text = page(rows, args)
    print(text)
    if args.write:
        name = f"{args.platform}_{args.topology.replace(':', '_')}".strip("_")
        (RESULTS / f"held_out_memory_{name}.md").write_text(text)


if __name__ == "__main__":
    main()
