"""Step times of published training runs beside what the simulator says.

    python -m benchmarks.published_runs [--fit | --all] [--only ID ...]

Half of the rows, by a hash of their names, may be fitted by; figures are of the other
half. ``--fit`` shows that first half, the constants of specs by which its step times
are met best (`fit.py`), and how well they are met by constants fitted without the rows
of the same framework. ``--all`` shows both halves: the order within a device.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks.published_runs.fit import chip, fitted, maker
from benchmarks.published_runs.run import EXCLUDED, Run, runs


def main(argv: list[str] | None = None) -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fit", action="store_true", help="the half to fit by")
    parser.add_argument("--all", action="store_true", help="both halves")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    options = parser.parse_args(argv)
    chosen = [
        run
        for run in runs()
        if (options.all or run.is_fitted == options.fit)
        and (not options.only or any(part in run.id for part in options.only))
    ]
    errors = {run: _error(run) for run in chosen}
    _summary(errors)
    if options.fit:
        _fit(chosen)
    return 0


def _error(run: Run) -> float:
    """Of the predicted step time, as a share of the measured one."""
    estimate = run.partitioned.estimate_on(run.spec)
    predicted = run.predicted(estimate)
    error = predicted / run.seconds - 1
    print(
        f"{run.id:28} {run.seconds:8.3f} s, predicted {predicted:8.3f} ({error:+.1%})"
    )
    return error


def _summary(errors: dict[Run, float]) -> None:
    sizes = [abs(error) for error in errors.values()]
    print(
        f"{len(errors)} runs, {len(EXCLUDED)} left out: median error "
        f"{statistics.median(sizes):.1%}, worst {max(sizes):.1%}, "
        f"bias {statistics.median(errors.values()):+.1%}"
    )
    for device, own in _by_device(errors).items():
        sizes = [abs(errors[run]) for run in own]
        said = f"{device}: {len(own)} runs, median error {statistics.median(sizes):.1%}"
        if len(own) > 2:
            said += f", rank correlation of MFU {_correlation(own, errors):.2f}"
        print(said)


def _correlation(own: Sequence[Run], errors: dict[Run, float]) -> float:
    """Spearman's, of the order in which runs use their device well."""
    measured = [run.work / run.seconds for run in own]
    predicted = [run.work / (run.seconds * (1 + errors[run])) for run in own]
    return statistics.correlation(_ranks(measured), _ranks(predicted))


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    return [float(order.index(number)) for number in range(len(values))]


def _by_device(own: Iterable[Run]) -> dict[str, list[Run]]:
    found = defaultdict(list)
    for run in own:
        found[run.device].append(run)
    return found


def _fit(chosen: Sequence[Run]) -> None:
    """Print the constants that suit these runs best, also those without a source."""
    for name, constants in fitted(chosen).items():
        each = ", ".join(f"{key} {value:g}" for key, value in constants.items())
        print(f"{name}: {each}")
    left_out = _without_source(chosen)
    sizes = [abs(error) for error in left_out.values()]
    print(
        f"constants fitted without the runs of the same source: {len(sizes)} runs, "
        f"median error {statistics.median(sizes):.1%}, "
        f"mean {statistics.mean(sizes):.1%}"
    )


def _without_source(chosen: Sequence[Run]) -> dict[Run, float]:
    """Errors of runs by constants that no run of their framework was fitted by.

    A chip that only one framework has runs of is left out.
    """
    errors = {}
    for source in sorted({run.row["framework"] for run in chosen}):
        rest = [run for run in chosen if run.row["framework"] != source]
        own = [run for run in chosen if run.row["framework"] == source]
        chips = {chip(run) for run in rest}
        own = [run for run in own if chip(run) in chips]
        if not own:
            continue
        found = fitted([run for run in rest if maker(run) in map(maker, own)], rounds=1)
        for run in own:
            share = found[f"matrix_efficiency of {maker(run)}"][chip(run)]
            spec = replace(run.spec, **found[maker(run)], matrix_efficiency=share)
            predicted = run.predicted(run.partitioned.estimate_on(spec))
            errors[run] = predicted / run.seconds - 1
    return errors


if __name__ == "__main__":
    sys.exit(main())
