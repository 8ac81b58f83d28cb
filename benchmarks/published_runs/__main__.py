"""Step times of published training runs beside what the simulator says.

    python -m benchmarks.published_runs [--fit] [--only ID ...]

Half of the rows, by a hash of their names, may be fitted by; figures are of the other
half. ``--fit`` shows that first half, and the share of the peak that large products of
each device reach (``matrix_efficiency``) by which its step times are met best.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks.published_runs.run import EXCLUDED, Run, runs


def main(argv: list[str] | None = None) -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fit", action="store_true", help="the half to fit by")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    options = parser.parse_args(argv)
    chosen = [
        run
        for run in runs()
        if run.is_fitted == options.fit
        and (not options.only or any(part in run.id for part in options.only))
    ]
    errors = {run: _error(run) for run in chosen}
    _summary(errors)
    if options.fit:
        _fitted(chosen)
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


def _fitted(chosen: Sequence[Run]) -> None:
    """Print the efficiency of each device that suits its runs best.

    A step is a part that products take, which goes with the efficiency, and a rest.
    """
    for device, own in _by_device(chosen).items():
        parts = [(run, *_parts(run)) for run in own]

        def cost(share: float, parts: Sequence[tuple[Run, float, float]]) -> float:
            ratios = [(p / share + rest) / run.seconds for run, p, rest in parts]
            return sum(abs(math.log(ratio)) for ratio in ratios)

        best = min(range(20, 100), key=lambda n: cost(n / 100, parts))
        each = [f"{p / (run.seconds - rest):.2f}" for run, p, rest in parts]
        print(f"{device}: matrix_efficiency {best / 100}; by run {', '.join(each)}")


def _parts(run: Run) -> tuple[float, float]:
    """Seconds of products at the peak, and of all else."""
    slow, fast = (
        run.predicted(
            run.partitioned.estimate_on(replace(run.spec, matrix_efficiency=share))
        )
        for share in (0.5, 1.0)
    )
    return slow - fast, 2 * fast - slow


if __name__ == "__main__":
    sys.exit(main())
