"""How long partitioning takes, as ratios within one run.

    python -m benchmarks.partition_time [--layers 32] [--repeats 3] [--json] [--write]

Three questions, about the transformer's training step under BP+MP+Z3:

1. *Share of compilation.* Partitioning, from the module that JAX has lowered to the
   bytecode of the device-local module, against XLA's compilation of that module for
   eight virtual CPU devices.
2. *Growth with depth.* Time per layer at 8, 16, 32 and 64 layers.
3. *Growth with the mesh.* The same model on 8, 512 and 65,536 logical devices.

Times are the best of several repeats. Seconds depend on the machine, ratios hardly do.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import jax

import partir
from benchmarks.models import transformer
from benchmarks.models.schedules import schedules_for
from benchmarks.models.transformer import Config
from benchmarks.results_page import RESULTS, head, virtual_devices
from benchmarks.tables import format_table
from partir.frontend.stablehlo import import_module

T = TypeVar("T")

DONATED = (0, 1)
DEPTHS = (8, 16, 32, 64)
MESHES = ({"B": 4, "M": 2}, {"B": 32, "M": 16}, {"B": 256, "M": 256})


# What is measured


class Timed:
    """A tactic that records how long another one takes, its propagation included."""

    def __init__(self, tactic: Any) -> None:
        self.tactic = tactic
        self.name = tactic.name
        self.seconds = 0.0

    def apply(self, partition: Any) -> None:
        """Apply the tactic and propagate, which changes nothing if already done."""
        start = time.perf_counter()
        self.tactic.apply(partition)
        partition.propagate()
        self.seconds = time.perf_counter() - start


def lower_step(config: Config) -> tuple[Any, int]:
    """The step as JAX lowers it, and how many ops it has."""
    args, kwargs = transformer.example_args(config)
    step = jax.jit(transformer.step_for(config), keep_unused=True)
    module = step.lower(*args, **kwargs).compiler_ir("stablehlo")
    assert module is not None
    return module, count_ops(module)


def count_ops(module: Any) -> int:
    """Ops of ``main`` with all calls inlined, without terminators."""
    functions = {f.name.value: f for f in module.body.operations}
    counts: dict[str, int] = {}

    def function(name: str) -> int:
        if name not in counts:
            counts[name] = inside(functions[name])
        return counts[name]

    def inside(op: Any) -> int:
        blocks = (block for region in op.regions for block in region.blocks)
        return sum(one(inner) for block in blocks for inner in block.operations)

    def one(op: Any) -> int:
        name = op.operation.name
        if name == "func.call":
            return function(op.attributes["callee"].value)
        return inside(op) + (not name.endswith(".return"))

    return function("main")


def trace_step(config: Config) -> Any:
    """The step as a ``partir`` program, with its arguments' names."""
    args, kwargs = transformer.example_args(config)
    return partir.trace(transformer.step_for(config), *args, **kwargs)


def partition_module(
    program: Any, mesh: partir.Mesh, schedule: Sequence[Any]
) -> tuple[Any, bytes]:
    """Partition a program and emit its device-local module."""
    given = {"donate_argnums": DONATED, "verify": "off"}  # benchmarks.proof_time has it
    partitioned = partir.partition(program, mesh, schedule, **given)
    return partitioned, partitioned.stablehlo_bytecode()


# Measuring


def best(function: Callable[[], T], repeats: int) -> tuple[float, T]:
    """The shortest of several runs, and what the last one returned."""
    seconds, made = [], list[T]()
    for _ in range(repeats):
        made.clear()  # else what the last run made would be freed in this one's time
        gc.collect()
        start = time.perf_counter()
        made.append(function())
        seconds.append(time.perf_counter() - start)
    return min(seconds), made[0]


@dataclass(frozen=True)
class Timing:
    """Seconds to partition one step over one mesh, by stage."""

    layers: int
    mesh: str
    devices: int
    ops: int
    import_seconds: float
    partition_seconds: float
    tactics: dict[str, float]
    bytecode: int

    @property
    def seconds(self) -> float:
        """From JAX's module to ours."""
        return self.import_seconds + self.partition_seconds


def time_tactics(
    program: Any, mesh: partir.Mesh, schedule: Sequence[Any], repeats: int
) -> dict[str, float]:
    """Seconds of each tactic alone, propagation included."""
    fastest = {tactic.name: float("inf") for tactic in schedule}
    for _ in range(repeats):
        timed = [Timed(tactic) for tactic in schedule]
        partir.partition(program, mesh, timed, donate_argnums=DONATED)
        for tactic in timed:
            fastest[tactic.name] = min(fastest[tactic.name], tactic.seconds)
    return fastest


def time_partitioning(
    config: Config, axes: dict[str, int], name: str, repeats: int
) -> tuple[Timing, Any]:
    """Measure one model on one mesh; also return what the partitioner gave."""
    mesh = partir.Mesh(axes)
    schedule = schedules_for(separate=config.separate)[name]
    module, ops = lower_step(config)
    imported, _ = best(lambda: import_module(module), repeats)
    program = trace_step(config)
    seconds, (partitioned, bytecode) = best(
        lambda: partition_module(program, mesh, schedule), repeats
    )
    timing = Timing(
        layers=config.layers,
        mesh=str(mesh),
        devices=mesh.size,
        ops=ops,
        import_seconds=imported,
        partition_seconds=seconds,
        tactics=time_tactics(program, mesh, schedule, repeats),
        bytecode=len(bytecode),
    )
    return timing, partitioned


def wide(config: Config) -> Config:
    """Sizes that every mesh in ``MESHES`` divides."""
    return replace(
        config, width=1024, heads=256, head_dim=4, hidden=1024, vocab=1024, batch=256
    )


# The three tables


def measure_compilation(config: Config, name: str, repeats: int) -> dict[str, Any]:
    """Partitioning against XLA's compilation of the result."""
    timing, partitioned = time_partitioning(config, MESHES[0], name, repeats)
    lowered = partitioned.compile().lower_abstract()
    compile_seconds, _ = best(lowered.compile, 1)
    return asdict(timing) | {
        "seconds": timing.seconds,
        "compile_seconds": compile_seconds,
        "ratio": timing.seconds / compile_seconds,
    }


def measure_depths(
    config: Config, name: str, repeats: int, depths: Sequence[int]
) -> list[dict[str, Any]]:
    """Time per layer at each depth, relative to the first."""
    configs = [replace(config, layers=depth) for depth in depths]
    timings = [time_partitioning(c, MESHES[0], name, repeats)[0] for c in configs]
    first = timings[0].seconds / timings[0].layers
    return [
        asdict(t) | {"seconds": t.seconds, "ratio": t.seconds / t.layers / first}
        for t in timings
    ]


def measure_meshes(config: Config, name: str, repeats: int) -> list[dict[str, Any]]:
    """Time on each mesh, relative to the first."""
    config = wide(config)
    timings = [time_partitioning(config, m, name, repeats)[0] for m in MESHES]
    first = timings[0].seconds
    return [
        asdict(t) | {"seconds": t.seconds, "ratio": t.seconds / first} for t in timings
    ]


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def show_compilation(row: dict[str, Any]) -> str:
    """Stages of one partitioning and their share of XLA's time."""
    stages = {
        "import": row["import_seconds"],
        "partition and export": row["partition_seconds"],
        **{f"  {name} alone": seconds for name, seconds in row["tactics"].items()},
        "module to module": row["seconds"],
        "XLA compilation": row["compile_seconds"],
    }
    body = [
        (stage, _seconds(seconds), f"{seconds / row['compile_seconds']:.1%}")
        for stage, seconds in stages.items()
    ]
    title = f"{row['layers']} layers, {row['ops']} ops, mesh {row['mesh']}"
    return f"{title}\n{format_table(('stage', 'seconds', 'of XLA'), body)}"


def show_scaling(title: str, rows: list[dict[str, Any]], relative: str) -> str:
    """One line per measurement, with each tactic's time."""
    tactics = list(rows[0]["tactics"])
    header = ("layers", "devices", "ops", *tactics, "seconds", relative, "bytecode")
    body = [
        (
            row["layers"],
            row["devices"],
            row["ops"],
            *(_seconds(row["tactics"][name]) for name in tactics),
            _seconds(row["seconds"]),
            f"{row['ratio']:.2f}",
            row["bytecode"],
        )
        for row in rows
    ]
    return f"{title}\n{format_table(header, body)}"


# Command line


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Time partitioning takes.")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--depths", type=int, nargs="*", default=DEPTHS)
    parser.add_argument("--schedule", default="BP+MP+Z3")
    parser.add_argument("--separate", action="store_true", help="the other variant")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true", help="leave XLA out")
    parser.add_argument("--no-meshes", action="store_true", help="one mesh only")
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    parser.add_argument("--write", action="store_true", help="keep as a result")
    return parser.parse_args(argv)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that the command line asks for."""
    config = Config.small(layers=options.layers, separate=options.separate)
    name, repeats = options.schedule, options.repeats
    found: dict[str, Any] = {"schedule": name}
    if not options.no_compile:
        found["compilation"] = measure_compilation(config, name, repeats)
    if options.depths:
        found["depths"] = measure_depths(config, name, repeats, options.depths)
    if not options.no_meshes:
        found["meshes"] = measure_meshes(config, name, repeats)
    return found


def show(found: dict[str, Any]) -> str:
    """The tables that a person reads."""
    parts = [f"schedule {found['schedule']}"]
    if row := found.get("compilation"):
        parts.append(show_compilation(row))
    if rows := found.get("depths"):
        parts.append(show_scaling("Growth with depth", rows, "per layer"))
    if rows := found.get("meshes"):
        parts.append(show_scaling("Growth with the mesh", rows, "relative"))
    return "\n\n".join(parts)


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    options = parse_arguments(argv)
    jax.config.update("jax_num_cpu_devices", 8)
    found = measure(options)
    print(json.dumps(found) if options.json else show(found))
    if options.write:
        title = head("Time to partition", "partition_time", virtual_devices())
        text = f"{title}\n\n```text\n{show(found)}\n```\n"
        (RESULTS / "partition_time.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
