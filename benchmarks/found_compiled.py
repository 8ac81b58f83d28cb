"""Found strategies, compiled for the TPUs they were found for, beside the experts'.

    python -m benchmarks.found_compiled [--models "tall MLP;MoE"] [--evaluations 300]
        [--experts 2] [--keep FOLDER] [--kept-only] [--write]

Models of `benchmarks.models.experts` at full size, on their first target if that is a
TPU. For each: what the search finds and the experts' schedules that are predicted to be
the best, by libtpu's compiler (`make bench-tpu` makes an environment with it). Two
questions: does it fit where we say so, and do cycles come in the order predicted? The
compiler's cycles leave out collectives, so they are held beside predicted computing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Sets what jax must not look for, so before jax.
from benchmarks.compilers import compiler_of, devices_of  # isort: skip

import partir
from benchmarks.chosen import names
from benchmarks.compiled import Compiler, Made
from benchmarks.models.experts import MODELS, Model
from benchmarks.results_page import RESULTS, head, markdown

TOPOLOGIES = {
    ("tpu_v3", 8): "v3:2x2",
    ("tpu_v3", 32): "v3:4x4",
    ("tpu_v3", 128): "v3:8x8",
    ("tpu_v5p", 64): "v5p:4x4x4",
}
_SLACK = 0.01  # of cycles: programs that differ by less are in any order


@dataclass(frozen=True)
class Strategy:
    """One partition of a model: what is predicted of it, and what was compiled."""

    name: str
    estimate: Any
    made: Made | None
    refused: str = ""  # what the compiler says if it needs too much memory

    @property
    def fits(self) -> bool:
        """Whether the compiler found room for it."""
        return not self.refused


def strategies(model: Model, args: argparse.Namespace) -> Iterator[Strategy]:
    """What is found, then the experts' that are predicted to be the best."""
    target = model.targets[0]
    step, shapes = model.full_case(target)
    topology = TOPOLOGIES[target.device, target.mesh.size]
    args.topology = topology
    devices = devices_of("tpu", topology, target.axes)
    compiler = compiler_of(args, target.axes)

    def partitioned(schedule: Sequence[Any]) -> Any:
        return partir.partition(
            step,
            target.mesh,
            schedule,
            args=shapes,
            device=target.device,
            devices=devices,
            donate_argnums=model.donate,
        )

    experts = {
        name: partitioned(schedule)
        for name, schedule in model.schedules_on(target.axes, target.batch).items()
    }
    best = sorted(experts, key=lambda name: _order(experts[name].estimate))
    auto = partir.AutomaticPartition(tuple(target.axes), evaluations=args.evaluations)
    yield _compiled("found", partitioned([auto]), shapes, compiler)
    for name in best[: args.experts]:
        yield _compiled(name, experts[name], shapes, compiler)


def _order(estimate: Any) -> tuple[bool, float]:
    return not estimate.fits, estimate.seconds


def _compiled(name: str, done: Any, shapes: Any, compiler: Compiler) -> Strategy:
    try:
        made = compiler.made(done.compile().lower(*shapes))
    except Exception as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return Strategy(name, done.estimate, None, _room(str(error)))
    return Strategy(name, done.estimate, made)


def _room(message: str) -> str:
    """The compiler's sentence about memory."""
    lines = [line for line in message.splitlines() if "exceed" in line.lower()]
    return (lines or message.splitlines())[0][:160]


def row(model: str, one: Strategy) -> list[object]:
    """A line of the table."""
    peak = one.estimate.peak_bytes
    cells: list[object] = [model, one.name, f"{one.estimate.seconds * 1e3:.1f}"]
    cells += [f"{one.estimate.compute_seconds * 1e3:.1f}", f"{peak / 2**30:.2f}"]
    cells += ["yes" if one.estimate.fits else "no"]
    if one.made is None:
        return [*cells, one.refused or "not compiled", "no" if one.refused else "", ""]
    memory, cycles = one.made.memory, one.made.cycles
    error = f"{memory / 2**30:.2f} ({peak / memory - 1:+.0%})"
    return [*cells, error, "yes", f"{cycles / 1e6:.1f}"]


def in_order(found: Sequence[Strategy]) -> bool:
    """Whether cycles of all pairs come in the order of predicted computing."""
    known = [
        (one.estimate.compute_seconds, one.made.cycles)
        for one in found
        if one.made is not None
    ]
    return all(
        mine[1] <= other[1] * (1 + _SLACK)
        for mine in known
        for other in known
        if mine[0] < other[0] * (1 - _SLACK)
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Compile, print, and write the page if that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="wide MLP;tall MLP;GNS;UNet;MoE")
    parser.add_argument("--evaluations", type=int, default=300)
    parser.add_argument("--experts", type=int, default=2)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--kept-only", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args(argv)
    args.platform = "tpu"
    lines: list[list[object]] = []
    notes = []
    for name in names(parser, args.models, MODELS, ";"):
        found = []
        for one in strategies(MODELS[name], args):
            found.append(one)
            lines.append(row(name, one))
            print(*lines[-1], sep=" | ", flush=True)
        notes.append(
            f"- {name}: fits as predicted: "
            + ("yes" if all(o.fits == o.estimate.fits for o in found) else "no")
            + "; cycles in the order of predicted computing: "
            + ("yes" if in_order(found) else "no")
        )
    print(*notes, sep="\n")
    if args.write:
        (RESULTS / "found_compiled.md").write_text(page(lines, notes))


def page(lines: Sequence[Sequence[object]], notes: Sequence[str]) -> str:
    """The results page."""
    title = "What is found, compiled for its TPUs beside the best experts"
    about = (
        "Full size, nothing is run. *Predicted* are step, computing alone and memory "
        "of a device; *compiled* is libtpu's memory with the prediction's error, and "
        "its cycles, which leave out collectives."
    )
    header = ["model", "strategy", "step ms", "computing ms", "GiB", "fits"]
    header += ["compiled GiB", "fits", "cycles 1e6"]
    parts = [head(title, "found_compiled", "any: nothing is run"), about]
    parts += [markdown(header, lines), "\n".join(notes)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
