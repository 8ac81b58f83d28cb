"""Mistakes injected into device-local programs, counted by kind.

    python -m benchmarks.mutants [--per-kind 8] [--seed 0] [--only NAME ...]
                                 [--seconds S] [--survivors]

Each device-local program of a few training steps and functions gets one mistake at a
time, at sites drawn by seed, among the ops that results depend on. A mistake is
*caught* if a result is disproved or not proved. *Survivors* were proved all the same;
each is run beside the right program: if the numbers are the same, it was no mistake
(*harmless*), else it is a hole in the verifier, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import benchmarks.mutants.kinds
import benchmarks.mutants.placing  # noqa: F401  (kinds register themselves)
from benchmarks.mutants.edit import KINDS, mutants
from benchmarks.mutants.numbers import equal
from benchmarks.mutants.programs import programs
from benchmarks.mutants.whole import WHOLE
from benchmarks.tables import format_table
from partir.frontend.device_local import read_device_local
from partir.ir.core import Program
from partir.verify import ReadSource, compare

Mistake = tuple[str, str, Program]
VERDICTS = ("disproved", "not proved", "harmless", "missed")


def judged(
    done: Any, local: Program, source: ReadSource | Program | None = None
) -> str:
    """What the verifier says of a device-local program."""
    spmd = done.spmd
    tilings = (spmd.in_tilings, spmd.out_tilings)
    proof = compare(source or done.program, local, done.mesh, *tilings)
    if not proof.not_proved:
        return "proved"
    return "disproved" if proof.disproved else "not proved"


def mistakes(local: Program, seed: int, count: int) -> Iterator[Mistake]:
    """Programs with one mistake each, of every kind: kind, where, program."""
    found = [_single(local, kind, seed, count) for kind in KINDS]
    found += [_whole(local, kind, seed, count) for kind in WHOLE]
    for each in itertools.zip_longest(*found):  # all kinds, if time is short
        yield from filter(None, each)


def _single(local: Program, kind: str, seed: int, count: int) -> Iterator[Mistake]:
    for index, mutant in mutants(local, kind, seed, count):
        op = local.ops[index]
        yield kind, f"{op.signature} at {op.location}", mutant


def _whole(local: Program, kind: str, seed: int, count: int) -> Iterator[Mistake]:
    seen = set()
    for number in range(count):
        mutant = WHOLE[kind](local, random.Random(f"{kind} {seed} {number}"))
        if mutant is not None and (mutant.ops, mutant.body) not in seen:
            seen.add((mutant.ops, mutant.body))
            yield kind, "the program", mutant


def verdict_of(done: Any, local: Program, mutant: Program, source: ReadSource) -> str:
    """How a mistake fared."""
    found = judged(done, mutant, source)
    if found != "proved":
        return found
    return "harmless" if equal(done, local, mutant) else "missed"


def main(argv: list[str] | None = None) -> int:
    """Inject, judge and count; 1 if a mistake is missed or a right program refused."""
    parser = argparse.ArgumentParser(description="Mistakes that the verifier finds.")
    parser.add_argument("--per-kind", type=int, default=8, help="and program (8)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of names")
    parser.add_argument("--seconds", type=float, default=1e9, help="for each program")
    parser.add_argument("--survivors", action="store_true", help="list them")
    options = parser.parse_args(argv)
    counts: Counter[tuple[str, str]] = Counter()
    false_alarms, tried = 0, 0
    for name, done in programs(*options.only):
        begin = time.monotonic()
        local = read_device_local(done.stablehlo())
        source, tried = ReadSource(done.program), tried + 1
        false_alarms += judged(done, local, source) != "proved"
        for kind, where, mutant in mistakes(local, options.seed, options.per_kind):
            if time.monotonic() - begin > options.seconds:
                break
            verdict = verdict_of(done, local, mutant, source)
            counts[kind, verdict] += 1
            counts["all", verdict] += 1
            if verdict == "missed" or (verdict == "harmless" and options.survivors):
                print(f"{verdict}: {name}: {kind}: {where}", flush=True)
    rows = [_row(kind, counts) for kind in (*KINDS, *WHOLE, "all")]
    print(format_table(("mistake", "mutants", *VERDICTS, "caught"), rows))
    print(f"{false_alarms} of {tried} right programs not proved")
    return 1 if false_alarms or counts["all", "missed"] else 0


def _row(kind: str, counts: Counter[tuple[str, str]]) -> tuple[Any, ...]:
    """A kind's verdicts; caught are those that matter and were found."""
    numbers = [counts[kind, verdict] for verdict in VERDICTS]
    total, real = sum(numbers), sum(numbers) - numbers[2]
    share = f"{sum(numbers[:2]) / real:.1%}" if real else "-"
    return kind, total, *numbers, share


if __name__ == "__main__":
    sys.exit(main())
