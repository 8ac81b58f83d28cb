"""Mistakes injected into device-local programs, counted by kind.

    python -m benchmarks.mutants [--per-kind 24] [--seed 0] [--only NAME ...]
                                 [--record FILE] [--write]

Each device-local program of a few training steps and functions gets one mistake at a
time, at sites drawn by seed, among the ops that results depend on. A mistake is
*caught* if a result is disproved or not proved. *Survivors* were proved all the same;
each is run beside the right program: if the numbers are the same, it was no mistake
(*harmless*), else it is a hole in the verifier, and the exit code is 1. Programs that a
record has already are not done again. `--write` makes a page of results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import benchmarks.mutants.kinds
import benchmarks.mutants.moving
import benchmarks.mutants.placing  # noqa: F401  (kinds register themselves)
from benchmarks.mutants.edit import KINDS, mutants
from benchmarks.mutants.numbers import Numbers
from benchmarks.mutants.programs import named_programs
from benchmarks.mutants.whole import WHOLE
from benchmarks.results_page import RESULTS, head, markdown
from benchmarks.tables import format_table
from partir.frontend.device_local import read_device_local
from partir.ir.core import Program
from partir.verify import ReadSource, compare

Mistake = tuple[str, str, Program]
VERDICTS = ("disproved", "not proved", "harmless", "missed")
HEADER = ("mistake", "mutants", *VERDICTS, "caught")


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
    seen = {(local.ops, local.body)}
    for kind, where, mutant in itertools.chain(*found):
        if (mutant.ops, mutant.body) not in seen:  # two kinds may do the same
            seen.add((mutant.ops, mutant.body))
            yield kind, where, mutant


def _single(local: Program, kind: str, seed: int, count: int) -> Iterator[Mistake]:
    for index, mutant in mutants(local, kind, seed, count):
        op = local.ops[index]
        yield kind, f"{op.signature} at {op.location}", mutant


def _whole(local: Program, kind: str, seed: int, count: int) -> Iterator[Mistake]:
    for number in range(count):
        mutant = WHOLE[kind](local, random.Random(f"{kind} {seed} {number}"))
        if mutant is not None:
            yield kind, "the program", mutant


def verdict_of(
    done: Any,
    local: Program,
    mutant: Program,
    source: ReadSource,
    right: Numbers | None = None,
) -> str:
    """How a mistake fared; `right` has the numbers of the right program."""
    found = judged(done, mutant, source)
    if found != "proved":
        return found
    right = right or Numbers(done, local)
    return "harmless" if right.equal(mutant) else "missed"


def tried(name: str, done: Any, options: Any) -> dict[str, Any]:
    """How mistakes in one program fared: counts by kind, and survivors."""
    local = read_device_local(done.stablehlo())
    source, right = ReadSource(done.program), Numbers(done, local)
    proved = judged(done, local, source) == "proved"
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for kind, where, mutant in mistakes(local, options.seed, options.per_kind):
        verdict = verdict_of(done, local, mutant, source, right)
        if verdict in ("harmless", "missed"):
            survivors.append((verdict, kind, where))
            print(f"{verdict}: {name}: {kind}: {where}", flush=True)
        counts.setdefault(kind, Counter())[verdict] += 1
    return {"program": name, "proved": proved, "counts": counts, "survivors": survivors}


def recorded(options: Any) -> list[dict[str, Any]]:
    """What became of every program, from the record or now."""
    path = options.record and Path(options.record)
    kept = path.read_text().splitlines() if path and path.exists() else []
    found = {one["program"]: one for one in map(json.loads, kept)}
    for name, make in named_programs(*options.only):
        if name in found:
            continue
        found[name] = one = tried(name, make().partitioned(), options)
        print(f"{name}: {sum(sum(c.values()) for c in one['counts'].values())}")
        if path:
            with path.open("a") as file:
                file.write(json.dumps(one) + "\n")
    return list(found.values())


def table(found: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """A row for each kind, and one for all."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in (*KINDS, *WHOLE)}
    for one in found:
        for kind, verdicts in one["counts"].items():
            counts[kind] += Counter(verdicts)
    total = sum(counts.values(), Counter[str]())
    return [
        _row(kind, verdicts) for kind, verdicts in (*counts.items(), ("all", total))
    ]


def _row(kind: str, verdicts: Counter[str]) -> tuple[Any, ...]:
    """A kind's verdicts; caught are those that matter and were found."""
    numbers = [verdicts[verdict] for verdict in VERDICTS]
    total, real = sum(numbers), sum(numbers) - numbers[2]
    share = f"{sum(numbers[:2]) / real:.1%}" if real else "-"
    return kind, total, *numbers, share


def main(argv: list[str] | None = None) -> int:
    """Inject, judge and count; 1 if a mistake is missed or a right program refused."""
    parser = argparse.ArgumentParser(description="Mistakes that the verifier finds.")
    parser.add_argument("--per-kind", type=int, default=24, help="and program (24)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of names")
    parser.add_argument("--record", help="a file to go on from, a line per program")
    parser.add_argument("--write", action="store_true", help="a page of results")
    options = parser.parse_args(argv)
    found = recorded(options)
    rows = table(found)
    print(format_table(HEADER, rows))
    false_alarms = sum(not one["proved"] for one in found)
    print(f"{false_alarms} of {len(found)} right programs not proved")
    if options.write:
        title = head("Mistakes that the verifier finds", "mutants")
        page = "\n\n".join((title, markdown(HEADER, rows)))
        (RESULTS / "mutants.md").write_text(f"{page}\n")
    return 1 if false_alarms or rows[-1][-2] else 0


if __name__ == "__main__":
    sys.exit(main())
