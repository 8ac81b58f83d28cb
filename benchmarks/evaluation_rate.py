"""How many different decisions a search evaluates per second on one core.

    python -m benchmarks.evaluation_rate [--layers 32] [--count 60] [--json]

One decision is one more move after another one: the partition copied, the move applied
and propagated, lowered, rewritten, its time and memory estimated. Nothing is read from
the search's own cache. Moves are of three kinds: *batch* tiles inputs, *model* tiles
weights along a named dimension, *ZeRO* tiles state by whatever dimension divides. The
rate is one over the mean of the three, and the time of a million additions says how
fast the core was meanwhile. The unfolded program, all layers of it, takes
the same decisions for comparison.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import partir
from benchmarks.models import transformer
from benchmarks.tables import format_table
from partir.ir.garbage import collection_paused
from partir.partition.graph import Graph
from partir.partition.state import State
from partir.search.problem import Problem
from partir.search.result.decisions import decisions
from partir.search.space.move import Move
from partir.simulate.device.catalogue import devices
from partir.simulate.estimate import Estimate
from partir.spmd.stages import lower_state

KINDS = ("batch", "model", "ZeRO")
AXES = {"B": 16, "M": 2}
DEVICE = "tpu_v3"


def kind_of(move: Move) -> str:
    """What a move is about, by the arguments that it names."""
    if move.loops:
        return "several"
    if move.subject.startswith("inputs"):
        return "batch"
    return "ZeRO" if move.dimension is None or "optimizer" in move.subject else "model"


def build(layers: int) -> tuple[Problem, State]:
    """The training step, nothing decided."""
    config = transformer.Config.t32(layers=layers)
    args, _ = transformer.example_args(config)
    program = partir.trace(transformer.step_for(config), *args)
    start = State(Graph(program), partir.Mesh(AXES))
    donated = [p.name.startswith(("params", "opt")) for p in program.arguments]
    return Problem(start, tuple(AXES), devices[DEVICE], donated), start


def pairs(problem: Problem, kind: str) -> Iterator[tuple[Move, Move]]:
    """A move, and one of this kind after it that changes something."""
    for second in problem.fixed:
        if kind_of(second) != kind:
            continue
        for first in problem.fixed:
            if first.axis != second.axis and problem.follow((first,), second):
                yield first, second


def spread(problem: Problem, kind: str, count: int) -> list[tuple[Move, Move]]:
    """Some of the pairs, from all over."""
    found = list(pairs(problem, kind))
    return list(islice(found[:: max(len(found) // count, 1)], count))


class Stopwatch:
    """Seconds of this process's own, and of the clock on the wall."""

    def __init__(self) -> None:
        self.cpu, self.wall, self.count = 0.0, 0.0, 0

    def __enter__(self) -> None:
        self._started = time.process_time(), time.perf_counter()

    def __exit__(self, *error: Any) -> None:
        self.cpu += time.process_time() - self._started[0]
        self.wall += time.perf_counter() - self._started[1]
        self.count += 1

    def milliseconds(self) -> tuple[float, float]:
        """CPU and wall, of one decision."""
        return 1e3 * self.cpu / self.count, 1e3 * self.wall / self.count


@collection_paused  # as the search itself does
def time_folded(problem: Problem, chosen: list[tuple[Move, Move]]) -> Stopwatch:
    """Decisions on the folded program."""
    watch = Stopwatch()
    for first, second in chosen:
        before = problem.state((first,))
        with watch:
            state = before.copy()
            second.apply(state)
            problem.evaluate(state)
    return watch


@collection_paused
def time_whole(
    problem: Problem, start: State, chosen: list[tuple[Move, Move]]
) -> Stopwatch:
    """The same decisions on the program as it is."""
    watch = Stopwatch()
    donated = [False] * len(start.graph.program.arguments)
    for path in chosen:
        one, two, *_ = decisions(problem, path, start)
        before = start.copy()
        one.apply(before)
        with watch:
            state = before.copy()
            two.apply(state)
            estimate = Estimate(lower_state(state), problem.device, donated)
            assert estimate.seconds > 0
            assert estimate.peak_bytes > 0
    return watch


def pace() -> float:
    """CPU milliseconds of a million additions, at best: how fast this core is now."""
    found = []
    for _ in range(5):
        total, started = 0, time.process_time()
        for number in range(1_000_000):
            total += number
        found.append(1e3 * (time.process_time() - started))
    return min(found)


def measure(layers: int, count: int, whole: int) -> dict[str, Any]:
    """Milliseconds of each kind, and decisions per second."""
    problem, start = build(layers)
    for move in problem.fixed:  # fills the rules' tables, as a search does at once
        problem.evaluate(problem.state((move,)))
    rows: dict[str, Any] = {}
    for kind in KINDS:
        chosen = spread(problem, kind, count)
        rows[kind] = {"folded": time_folded(problem, chosen).milliseconds()}
        rows[kind]["decisions"] = len(chosen)
        if whole:
            some = spread(problem, kind, whole)
            rows[kind]["whole"] = time_whole(problem, start, some).milliseconds()
    found: dict[str, Any] = {
        "layers": layers,
        "ops": len(problem.folded.source.ops),
        "folded_ops": len(problem.folded.program.ops),
        "kinds": rows,
        "pace": pace(),
    }
    for which in ("folded", "whole") if whole else ("folded",):
        times = [rows[kind][which] for kind in KINDS]
        means = [sum(column) / len(KINDS) for column in zip(*times, strict=True)]
        found[f"{which}_per_second"] = [1e3 / mean for mean in means]
    return found


def show(found: dict[str, Any]) -> str:
    """The table that a person reads."""
    body = []
    for kind, row in found["kinds"].items():
        cells = [f"{ms:.2f}" for ms in (*row["folded"], *row.get("whole", ()))]
        body.append((kind, row["decisions"], *cells))
    rates = (*found["folded_per_second"], *found.get("whole_per_second", ()))
    body.append(("decisions/s", "", *(f"{rate:.1f}" for rate in rates)))
    header = ["milliseconds", "decisions", "folded, CPU", "wall", "whole, CPU", "wall"]
    title = (
        f"{found['layers']} layers: {found['ops']} ops, "
        f"folded {found['folded_ops']}; mesh {AXES}, {DEVICE}; "
        f"a million additions take {found['pace']:.0f} ms"
    )
    return f"{title}\n{format_table(header[: 2 + len(rates)], body)}"


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Decisions evaluated per second.")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--count", type=int, default=60, help="decisions of each kind")
    parser.add_argument("--whole", type=int, default=2, help="of these also unfolded")
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    options = parser.parse_args(argv)
    found = measure(options.layers, options.count, options.whole)
    print(json.dumps(found) if options.json else show(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
