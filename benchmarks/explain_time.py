"""How long an explanation takes, and each remedy that is tried for it.

    python -m benchmarks.explain_time [--layers 32] [--schedule BP+MP+Z3] [--json]

The transformer's training step is partitioned, lowered and estimated, as printing its
table does. Then one question of every sort is asked, each in a record of its own, so
that no answer finds what another one has looked up. Seconds are the processor's, so
that others on the machine hardly count. An answer without its remedies is the best of
several; remedies are tried once, and what one costs is their time by the number of
schedules that were tried.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any
from unittest import mock

import partir
from benchmarks.models import transformer
from benchmarks.models.schedules import SCHEDULES, SEPARATE_SCHEDULES
from benchmarks.models.transformer import Config
from benchmarks.tables import format_table
from partir.explain.trial import Trials

MESH = {"B": 4, "M": 2}


@dataclass(frozen=True)
class Timing:
    """Seconds of one answer, and of what was tried for it."""

    question: str
    kind: str
    cause: str
    answer_seconds: float
    tried: int
    remedy_seconds: float
    remedies: int

    @property
    def each(self) -> float:
        """Seconds of one try."""
        return self.remedy_seconds / self.tried if self.tried else 0.0


def partitioned(layers: int, schedule: str, separate: bool) -> partir.Partitioned:
    """The step, lowered and estimated."""
    config = Config.small(layers=layers, separate=separate)
    args, kwargs = transformer.example_args(config)
    known = SEPARATE_SCHEDULES if separate else SCHEDULES
    made = partir.partition(
        transformer.step_for(config),
        MESH,
        known[schedule],
        args=args,
        kwargs=kwargs,
        donate_argnums=(0, 1),
        device="tpu_v5p",
    )
    str(made)
    return made


def questions(made: partir.Partitioned) -> Iterator[str]:
    """One of every sort: arguments, results, inner values, collectives, lines."""
    yield from ("tokens", "params/layer_0/w1", "params/embedding", "out/2")
    yield from (made.program.results[0].name, "peak_bytes")
    inner = [n for n, _, _ in made.steps[-1].names.matching("%**/dot_general/*")]
    yield from (inner[0], inner[-1])
    for kind, count in made.collectives.items():
        if count:
            uses = [use for use in made.collective_list if use.kind == kind]
            largest = max(uses, key=lambda use: use.bytes)
            yield from (uses[0].id, largest.id)
            yield f"{largest.source.file}:{largest.source.line}"


def timed(made: partir.Partitioned, question: str, repeats: int) -> Timing:
    """Ask once more, and try."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        said = made.explain(question)
        said.lines()  # with what it costs
        seconds.append(time.process_time() - start)
    tried = 0
    measured = Trials._measured

    def counted(self: Any, *args: Any) -> Any:
        nonlocal tried
        tried += 1
        return measured(self, *args)

    with mock.patch.object(Trials, "_measured", counted):
        start = time.process_time()
        found = said.remedies
        took = time.process_time() - start
    best = min(seconds)
    return Timing(question, said.kind, said.cause, best, tried, took, len(found))


def show(timings: list[Timing]) -> str:
    """A row for each question."""
    head = ("question", "cause", "answer ms", "tried", "ms each", "remedies")
    rows = [
        (
            one.question.rpartition("benchmarks/")[2],
            one.cause,
            f"{one.answer_seconds * 1e3:.0f}",
            one.tried,
            f"{one.each * 1e3:.0f}",
            one.remedies,
        )
        for one in timings
    ]
    return format_table(head, rows)


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time explanations take.")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--schedule", default="BP+MP+Z3")
    parser.add_argument("--separate", action="store_true", help="the other variant")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    options = parser.parse_args(argv)
    made = partitioned(options.layers, options.schedule, options.separate)
    timings = [
        timed(made, one, options.repeats) for one in dict.fromkeys(questions(made))
    ]
    data = [asdict(one) for one in timings]
    print(json.dumps(data, indent=1) if options.json else show(timings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
