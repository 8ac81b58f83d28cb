"""Programs by the number: each drawn, tried under a few schedules, failures shrunk."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from partir.api.jit import partition
from partir.frontend.load import load
from partir.fuzz.case import Case, Failure, Trial
from partir.fuzz.edit import labelled, source_text
from partir.fuzz.programs.generate import generate
from partir.fuzz.schedules import random_mesh, random_schedule
from partir.fuzz.shrink import shrunk
from partir.ir.core import Program

SCHEDULES = 3  # of each program
EVERY = 10  # how many programs there are for one that is run on devices


@dataclass(frozen=True)
class Found:
    """A failure: the program's seed, what went wrong, and a smallest case of it."""

    seed: int
    failure: Failure
    case: Case


@dataclass(frozen=True)
class Unproved:
    """A schedule whose results are right but not all proved: of which program, why."""

    seed: int
    schedule: int  # its number among those of the program
    reason: str


@dataclass
class Report:
    """What a run did."""

    first: int
    programs: int = 0
    refused: int = 0  # of these, those that XLA can't run on one device either
    schedules: int = 0
    results: Counter[str] = field(default_factory=Counter)  # compared how far
    proved: int = 0  # results
    unproved: list[Unproved] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    seconds: float = 0.0


def run(
    seed: int = 0,
    programs: int = 100,
    seconds: float | None = None,
    *,
    every: int = EVERY,
    shrink: bool = True,
    told: Callable[[Report], None] | None = None,
) -> Report:
    """Try the programs of `seed`, `seed + 1`, …; stop when the time is up.

    Args:
        seed: the first program's; the same seeds give the same programs and schedules.
        programs: how many.
        seconds: a limit of time, if one is wanted.
        every: of so many programs, one is also compiled and run on devices, under the
            first of its schedules; 0 for none.
        shrink: whether to look for a smallest case of each failure.
        told: called after each program.
    """
    report = Report(seed)
    start = time.perf_counter()
    for number in range(seed, seed + programs):
        on_devices = bool(every) and number % every == 0
        for found in _tried(number, report, on_devices):
            report.found.append(_shrunk(found) if shrink else found)
        report.programs += 1
        report.seconds = time.perf_counter() - start
        if told is not None:
            told(report)
        if seconds is not None and report.seconds >= seconds:
            break
    return report


def cases(seed: int) -> Iterator[Case]:
    """A program with its schedules, drawn by the seed."""
    source = generate(seed)
    text = source_text(labelled(load(source.text)))
    program = load(text)
    for number in range(SCHEDULES):
        rng = random.Random(f"{seed} {number}")
        mesh = random_mesh(rng)
        case = Case(text, mesh, (), source.holds, seed, _carry(program, rng))
        carried = case.carried(program)
        drawn = partition(program, mesh, random_schedule(rng), carry=carried)
        tactics = tuple(
            (step.name, tuple(a for a in step.actions if a.kind != "skip"))
            for step in drawn.steps
        )
        yield replace(case, schedule=tactics)


def _carry(program: Program, rng: random.Random) -> tuple[tuple[int, int], ...]:
    """Some results that take the place of arguments of their types."""
    found: dict[int, int] = {}
    for place, port in enumerate(program.results):
        alike = [
            number
            for number, argument in enumerate(program.arguments)
            if program.types[argument.value] == program.types[port.value]
            and number not in found.values()
        ]
        if alike and rng.random() < 0.15:
            found[place] = rng.choice(alike)
    return tuple(found.items())


def _tried(seed: int, report: Report, on_devices: bool) -> Iterator[Found]:
    """Failures of one program; one of each stage is enough."""
    seen: set[str] = set()
    trial: Trial | None = None
    for number, case in enumerate(cases(seed)):
        trial = (trial.again if trial else Trial)(case, on_devices and not trial)
        failure = trial.run()
        if failure is None and not trial.can_run:
            report.refused += 1
            return
        report.schedules += 1
        if failure is None:
            report.results.update(trust.level.name.lower() for trust in trial.trusts)
            report.proved += len(trial.proof.proved)
            if trial.proof.not_proved:
                reason = str(trial.proof.not_proved[0])
                report.unproved.append(Unproved(seed, number, reason))
        elif failure.stage not in seen:
            seen.add(failure.stage)
            yield Found(seed, failure, case)


def _shrunk(found: Found) -> Found:
    on_devices = found.failure.stage == "devices"

    def attempt(case: Case) -> Failure | None:
        return Trial(case, on_devices).run()

    smallest = shrunk(found.case, found.failure.stage, attempt)
    return replace(found, case=smallest, failure=attempt(smallest) or found.failure)
