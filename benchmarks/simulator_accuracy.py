"""How close the simulator comes to XLA: flops, peak memory, step time.

    python -m benchmarks.simulator_accuracy [flops memory time] [--json]

Flops are compared with ``compiled.cost_analysis()``, peak memory with
``memory_analysis()`` (arguments + temporaries + results that are not aliased), step
time with measured runs on eight virtual CPU devices, under a spec that is calibrated
just before, on matrix products, elementwise ops and collectives alone, not on models.

Eight virtual devices on two cores measure total work, not parallel time. So does the
calibration: all devices work at once, and each gets its share of the machine. Devices
that compute the same thing twice cost twice as much here, where on real ones they
would not; ranks within a model are what is compared. On a machine that others use too,
``--clock cpu`` counts processor time, for the calibration as for the steps.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

FLAG = "--xla_force_host_platform_device_count=8"
if FLAG not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import partir  # noqa: E402
from benchmarks.models import language, suite  # noqa: E402
from benchmarks.tables import format_table  # noqa: E402
from partir.execute.measure import machine, measure_all  # noqa: E402
from partir.simulate.calibration import fit_spec  # noqa: E402

DEVICES = 8


# Flops and memory, from one compilation


@dataclass(frozen=True)
class Static:
    """Figures of one model under one schedule, ours and XLA's."""

    model: str
    schedule: str
    loops: bool
    flops: float
    xla_flops: float
    peak_bytes: int
    xla_bytes: int

    @property
    def flops_error(self) -> float:
        """Relative error of flops."""
        return self.flops / self.xla_flops - 1

    @property
    def memory_error(self) -> float:
        """Relative error of peak memory."""
        return self.peak_bytes / self.xla_bytes - 1


def compare_static(device: Any) -> Iterator[Static]:
    """Flops and memory of every small model under every schedule."""
    for model in suite.small():
        for name, schedule in model.schedules().items():
            done = suite.partitioned(model, schedule, suite.MESHES[0], device=device)
            yield _static(model.name, name, model.loops, done)


def compare_language(device: Any) -> Iterator[Static]:
    """Language models, in both regimes and two types of numbers."""
    for name, config in language.configs():
        step, args = language.train_step(config)
        for schedule, tactics in language.SCHEDULES.items():
            done = partir.partition(
                step,
                {"B": DEVICES},
                tactics,
                args=args,
                donate_argnums=(0, 1),
                device=device,
            )
            yield _static(name, schedule, False, done)


def _static(model: str, schedule: str, loops: bool, done: Any) -> Static:
    compiled = done.compile().lower_abstract().compile()
    print(f"compiled {model} {schedule}", file=sys.stderr, flush=True)
    memory = compiled.memory_analysis()
    return Static(
        model=model,
        schedule=schedule,
        loops=loops,
        flops=done.estimate.flops,
        xla_flops=compiled.cost_analysis()["flops"],
        peak_bytes=done.estimate.peak_bytes,
        xla_bytes=memory.argument_size_in_bytes
        + memory.temp_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes,
    )


def show_flops(rows: Sequence[Static]) -> str:
    """Flops of loop-free programs: XLA counts a loop's body once."""
    shown = [row for row in rows if not row.loops]
    body = [
        (r.model, r.schedule, f"{r.flops:.5g}", f"{r.xla_flops:.5g}", _percent(r))
        for r in shown
    ]
    worst = max(abs(r.flops_error) for r in shown)
    table = format_table(("model", "schedule", "ours", "XLA", "error"), body)
    return f"Flops per device\n{table}\nworst {worst:.2%}"


def _percent(row: Static) -> str:
    return f"{row.flops_error:+.2%}"


def show_memory(rows: Sequence[Static]) -> str:
    """Peak memory per model and schedule."""
    body = [
        (
            r.model,
            r.schedule,
            f"{r.peak_bytes / 2**20:.2f}",
            f"{r.xla_bytes / 2**20:.2f}",
            f"{r.memory_error:+.1%}",
        )
        for r in rows
    ]
    errors = [abs(r.memory_error) for r in rows]
    table = format_table(("model", "schedule", "MiB", "XLA MiB", "error"), body)
    summary = f"median {statistics.median(errors):.1%}, worst {max(errors):.1%}"
    return f"Peak memory per device\n{table}\n{summary}"


# Time


@dataclass(frozen=True)
class Timed:
    """Measured and predicted time of one model under one schedule on one mesh."""

    model: str
    schedule: str
    mesh: str
    seconds: float
    noise: float  # between the best of the one and of the other half of the runs
    predicted: float


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def calibrated(quick: bool, clock: Any) -> Any:
    """A spec of this machine, measured now."""
    measured = measure_all(DEVICES, quick=quick, clock=clock)
    return fit_spec("this machine", DEVICES, measured, **machine(DEVICES)).spec


def cases(model: Any, device: Any, idle: bool = True) -> Iterator[tuple[str, Any]]:
    """The model under each schedule on each mesh that it makes use of.

    Unless axes may be `idle`, it makes use of all of the mesh.
    """
    for axes in suite.MESHES:
        real = {axis for axis, size in axes.items() if size > 1}
        for name, schedule in model.schedules().items():
            used = {tactic.axis for tactic in schedule}
            if not used <= real or (not used and axes["B"] != 4):
                continue
            if not idle and used != real:
                continue
            yield name, suite.partitioned(model, schedule, axes, device=device)


Listed = list[tuple[str, Any, Any]]
"""Schedules by name, the partitioned steps, and these compiled."""


def time_model(model: Any, device: Any, rounds: int, clock: Any) -> list[Timed]:
    """All schedules of a model, compiled and timed."""
    listed = compiled_cases(model, device)
    return time_cases(model.name, listed, device, rounds, clock)


def compiled_cases(model: Any, device: Any, idle: bool = True) -> Listed:
    """The model under each schedule on each mesh, ready to run."""
    return [(name, done, done.compile()) for name, done in cases(model, device, idle)]


def time_cases(
    model: str, listed: Listed, device: Any, rounds: int, clock: Any
) -> list[Timed]:
    """All schedules in turn, several times over, so that all see the same noise."""
    print(f"timing {model}: {len(listed)} schedules", file=sys.stderr, flush=True)
    times: list[list[float]] = [[] for _ in listed]
    for _ in range(rounds):
        for number, (_, done, compiled) in enumerate(listed):
            times[number] += time_steps(done, compiled, clock)
    return [
        Timed(
            model=model,
            schedule=name,
            mesh=str(done.mesh),
            seconds=min(found),
            noise=abs(min(found[::2]) / min(found[1::2]) - 1),
            predicted=done.estimate_on(device).seconds,
        )
        for (name, done, _), found in zip(listed, times, strict=True)
    ]


def time_steps(done: Any, compiled: Any, clock: Any, count: int = 3) -> list[float]:
    """Seconds of a few steps after a first one, on state made for them."""
    avals = compiled.call.avals
    leaves = [jnp.ones(a.shape, a.dtype) * (a.dtype == jnp.float32) for a in avals]
    args, _ = compiled.call.rebuild(leaves)
    params, opt_state, *batch = done.shard(*args)
    found = []
    for _ in range(count + 1):
        start = clock()
        params, opt_state, loss = compiled(params, opt_state, *batch)
        jax.block_until_ready((params, opt_state, loss))
        found.append(clock() - start)
    return found[1:]


def apart(rows: Sequence[Timed], noise: float) -> list[Timed]:
    """Rows by measured time, those left out that differ from the last by noise only."""
    kept: list[Timed] = []
    for row in sorted(rows, key=lambda row: row.seconds):
        if not kept or row.seconds > kept[-1].seconds * (1 + noise):
            kept.append(row)
    return kept


def rank_correlation(rows: Sequence[Timed]) -> float:
    """Spearman's, between measured and predicted times."""
    first = _ranks([row.seconds for row in rows])
    second = _ranks([row.predicted for row in rows])
    middle = (len(rows) - 1) / 2
    top = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    return top / sum((a - middle) ** 2 for a in first)


def _ranks(values: Sequence[float]) -> list[int]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    for rank, number in enumerate(order):
        ranks[number] = rank
    return ranks


def regret(rows: Sequence[Timed]) -> float:
    """How much slower the schedule predicted best is than the one measured best."""
    chosen = min(rows, key=lambda row: row.predicted)
    return chosen.seconds / min(row.seconds for row in rows) - 1


def show_times(rows: Sequence[Timed]) -> str:
    """A table per model, and its rank correlation."""
    parts, correlations = [], []
    for name in dict.fromkeys(row.model for row in rows):
        own = sorted((r for r in rows if r.model == name), key=lambda r: r.seconds)
        noise = max(statistics.median(row.noise for row in own), 0.01)
        kept = apart(own, noise)
        body = [
            (
                row.schedule,
                row.mesh,
                f"{row.seconds * 1e3:.1f}",
                f"{row.predicted * 1e3:.1f}",
                f"{row.predicted / row.seconds - 1:+.0%}",
                "" if row in kept else "tie",
            )
            for row in own
        ]
        head = ("schedule", "mesh", "measured ms", "predicted ms", "error", "")
        correlations.append(rank_correlation(kept))
        summary = (
            f"noise {noise:.1%}; rank correlation {correlations[-1]:.3f} of {len(kept)}"
            f" that differ by more, {rank_correlation(own):.3f} of all; best by "
            f"prediction {regret(own):.1%} slower than the best"
        )
        parts.append(f"{name}\n{format_table(head, body)}\n{summary}")
    median = statistics.median(correlations)
    parts.append(
        f"rank correlation: median {median:.3f}, least {min(correlations):.3f}"
    )
    return "\n\n".join(parts)


# Command line


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Accuracy of the simulator.")
    what = ["flops", "memory", "time"]
    parser.add_argument("what", nargs="*", default=what, metavar="flops|memory|time")
    parser.add_argument("--device", default="cpu", help="spec for flops and memory")
    parser.add_argument("--rounds", type=int, default=4, help="turns of all schedules")
    parser.add_argument("--quick", action="store_true", help="calibrate quickly")
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="cpu: processor time of all cores, for machines that are shared",
    )
    parser.add_argument("--models", nargs="*", help="time these only")
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    return parser.parse_args(argv)


def versions() -> dict[str, str]:
    """Of what the figures depend on."""
    python = platform.python_version()
    names = ("jax", "jaxlib", "numpy")
    return {"python": python, **{name: version(name) for name in names}}


def main(argv: list[str] | None = None) -> int:
    """Compare what was asked for and print it."""
    options = parse_arguments(argv)
    found: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), **versions()}
    shown_versions = ", ".join(f"{k} {v}" for k, v in versions().items())
    texts = [f"{found['date']}: {shown_versions}; {DEVICES} virtual CPU devices"]
    if "flops" in options.what or "memory" in options.what:
        static = list(compare_static(options.device))
        found["static"] = [asdict(row) for row in static]
        shown = {"flops": show_flops, "memory": show_memory}
        texts += [shown[w](static) for w in options.what if w in shown]
    if "memory" in options.what:
        spoken = list(compare_language(options.device))
        found["language"] = [asdict(row) for row in spoken]
        texts.append(show_memory(spoken))
    if "time" in options.what:
        clock = CLOCKS[options.clock]
        spec = calibrated(options.quick, clock)
        rows = [
            row
            for model in suite.large()
            if not options.models or model.name in options.models
            for row in time_model(model, spec, options.rounds, clock)
        ]
        found |= {"spec": asdict(spec), "times": [asdict(row) for row in rows]}
        texts.append(show_times(rows))
    in_json = json.dumps(found, indent=1, default=sorted) if options.json else ""
    print(in_json or "\n\n".join(texts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
