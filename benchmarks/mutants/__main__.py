"""Mistakes injected into device-local programs, counted by kind.

    python -m benchmarks.mutants [--per-kind 20] [--seed 0] [--survivors]

Each device-local program of a few training steps gets one mistake at a time, at sites
drawn by seed, among the ops that results depend on. A mistake is *caught* if a result
is disproved or not proved; *survivors* were proved all the same: they are listed, and
either compute the same or are a hole in the verifier.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import benchmarks.mutants.kinds  # noqa: F401  (kinds register themselves)
from benchmarks.models import mlp, scanned, suite, transformer
from benchmarks.mutants.edit import KINDS, mutants
from benchmarks.tables import format_table
from partir.frontend.device_local import read_device_local
from partir.ir.core import Program
from partir.verify import compare

MESH = {"B": 4, "M": 2}
SCHEDULES = ("BP+MP", "BP+MP+Z3")


def programs() -> Iterator[tuple[str, Any, Program]]:
    """Small training steps, partitioned and read back."""
    config = mlp.Config(blocks=2, width=8, hidden=8, batch=32)
    args = mlp.example_args(config)[0]
    small = transformer.Config.small(
        layers=1, width=32, head_dim=8, hidden=64, vocab=64, sequence=16
    )
    models = (
        suite.Model("mlp", mlp.train_step, args, mlp.BATCH, mlp.MODEL),
        suite.Model(
            "scanned",
            scanned.train_step,
            scanned.example_args()[0],
            scanned.BATCH,
            scanned.MODEL,
        ),
        suite.transformer_model("transformer", small),
    )
    for model in models:
        for name in SCHEDULES:
            done = suite.partitioned(model, model.schedules()[name], MESH)
            yield f"{model.name} {name}", done, read_device_local(done.stablehlo())


def judged(done: Any, local: Program) -> str:
    """What the verifier says of a device-local program."""
    spmd = done.spmd
    tilings = (spmd.in_tilings, spmd.out_tilings)
    proof = compare(done.program, local, done.mesh, *tilings)
    if not proof.not_proved:
        return "proved"
    return "disproved" if proof.disproved else "not proved"


def main(argv: list[str] | None = None) -> int:
    """Inject, judge and count; 1 if a right program is not proved."""
    parser = argparse.ArgumentParser(description="Mistakes that the verifier finds.")
    parser.add_argument("--per-kind", type=int, default=20, help="and program (20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--survivors", action="store_true", help="list them")
    options = parser.parse_args(argv)
    counts: Counter[tuple[str, str]] = Counter()
    false_alarms = 0
    for name, done, local in programs():
        false_alarms += judged(done, local) != "proved"
        for kind in KINDS:
            for index, mutant in mutants(local, kind, options.seed, options.per_kind):
                verdict = judged(done, mutant)
                counts[kind, verdict] += 1
                if verdict == "proved" and options.survivors:
                    op = local.ops[index]
                    print(f"{name}: {kind}: {op.signature} at {op.location}")
    rows = [_row(kind, counts) for kind in KINDS]
    total = Counter[str]()
    for (_, verdict), number in counts.items():
        total[verdict] += number
    rows.append(_row("all", {("all", v): n for v, n in total.items()}))
    header = ("mistake", "mutants", "disproved", "not proved", "survived", "caught")
    print(format_table(header, rows))
    print(f"{false_alarms} right programs not proved")
    return 1 if false_alarms else 0


def _row(kind: str, counts: Any) -> tuple[Any, ...]:
    verdicts = ("disproved", "not proved", "proved")
    wrong, unsure, survived = (counts.get((kind, verdict), 0) for verdict in verdicts)
    total = wrong + unsure + survived
    share = f"{(wrong + unsure) / total:.1%}" if total else "-"
    return kind, total, wrong, unsure, survived, share


if __name__ == "__main__":
    sys.exit(main())
