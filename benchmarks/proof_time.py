"""How long a proof takes beside partitioning and beside XLA, and how it grows.

    python -m benchmarks.proof_time [--layers 32] [--runs 3] [--compile]
                                    [--depths 8 16 32] [--write]

The transformer's training step, B=4 and M=2, in processor seconds, the best of several
runs in turn, each of which begins without what others before it left for the garbage
collector: partitioning, from the module that jax lowers to the bytecode of what runs
on CPUs (import, and the rest); the proof of that, which reads its text back; and with
`--compile` XLA's compilation of it. With `--depths`, the same at several depths, and
what a proof takes of memory at most beside the module's text. `--write` makes a page of
results.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from typing import Any, NamedTuple

import jax

import partir
from benchmarks.models import schedules, transformer
from benchmarks.partition_time import lower_step, trace_step
from benchmarks.results_page import RESULTS, head, markdown, virtual_devices
from benchmarks.tables import format_table
from partir.frontend.bytecode import to_bytecode
from partir.frontend.stablehlo import import_module
from partir.spmd.export_policy import XLA_CPU

MESH = {"B": 4, "M": 2}
SCHEDULES = ("BP+MP", "BP+MP+Z3")
HEADER = (
    "schedule",
    "ops",
    "import",
    "partition and export",
    "proof",
    "proof / module to module",
)
GROWTH = ("layers", "ops", "proof", "µs per op", "memory, MB", "text, MB")
Table = tuple[tuple[str, ...], list[tuple[Any, ...]]]


def measured(run: Any) -> tuple[float, Any]:
    """Processor seconds of a call, and what it returned."""
    begin = time.process_time()
    made = run()
    return time.process_time() - begin, made


def traced(layers: int) -> tuple[Any, dict[str, Any], Any]:
    """The step, schedules by name, and the step as jax lowers it."""
    config = transformer.Config.small(layers=layers, biased=True)
    known = schedules.schedules_for(separate=config.separate)
    return trace_step(config), known, lower_step(config)[0]


class Times(NamedTuple):
    """Processor seconds of each stage, and what was partitioned."""

    imported: float
    partitioned: float
    proved: float
    made: Any

    @property
    def module_to_module(self) -> float:
        """All that partitioning takes."""
        return self.imported + self.partitioned


def running_text(done: Any) -> str:
    """The module that runs on CPUs."""
    text: str = done.steps[-1].module_for(XLA_CPU).text
    return text


def once(program: Any, tactics: Any, module: Any) -> Times:
    """Import a module, partition and export its program, prove what runs."""

    def partitioned() -> Any:
        done = partir.partition(program, MESH, tactics, verify="off")
        to_bytecode(running_text(done))
        return done

    gc.collect()
    imported, _ = measured(lambda: import_module(module))
    first, done = measured(partitioned)
    second, proof = measured(lambda: done.proof(running_text(done)))
    assert not proof.not_proved, proof
    return Times(imported, first, second, done)


def best(runs: list[Times]) -> Times:
    """The least of each stage."""
    return Times(*(min(run[n] for run in runs) for n in range(3)), runs[-1].made)


def row(name: str, tactics: Any, given: Any, options: Any) -> tuple[Any, ...]:
    """Best times of one schedule."""
    program, _, module = given
    found = best([once(program, tactics, module) for _ in range(options.runs)])
    ratio = found.proved / found.module_to_module
    cells = [name, len(program.ops), *(f"{seconds:.2f}" for seconds in found[:3])]
    cells.append(f"{ratio:.2f}")
    if options.compile:
        lowered = found.made.compile().lower_abstract()
        seconds, _ = measured(lowered.compile)
        share = (found.module_to_module + found.proved) / seconds
        cells += [f"{seconds:.1f}", f"{share:.1%}"]
    return tuple(cells)


def times(options: Any) -> Table:
    """Beside partitioning, and beside XLA if asked."""
    given = traced(options.layers)
    header = (*HEADER, "XLA", "all / XLA") if options.compile else HEADER
    return header, [row(name, given[1][name], given, options) for name in SCHEDULES]


def growth(depths: list[int], runs: int) -> Table:
    """Time and memory by depth."""
    rows = []
    for layers in depths:
        program, known, module = traced(layers)
        tactics = known[SCHEDULES[0]]
        found = best([once(program, tactics, module) for _ in range(runs)])
        seconds, source = found.proved, running_text(found.made)
        tracemalloc.start()
        found.made.proof(source)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        ops, text = len(program.ops), len(source) / 1e6
        each = f"{seconds / ops * 1e6:.1f}"
        rows.append((layers, ops, f"{seconds:.2f}", each, f"{peak:.1f}", f"{text:.1f}"))
    return GROWTH, rows


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time of proofs.")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="beside XLA's time")
    parser.add_argument("--depths", type=int, nargs="*", default=[], help="growth")
    parser.add_argument("--write", action="store_true", help="a page of results")
    options = parser.parse_args(argv)
    jax.config.update("jax_num_cpu_devices", 8)
    tables = [times(options)]
    if options.depths:
        tables.append(growth(options.depths, options.runs))
    for table in tables:
        print(format_table(*table))
    if options.write:
        title = head("Time to prove", "proof_time", virtual_devices())
        page = "\n\n".join([title, *(markdown(*table) for table in tables)])
        (RESULTS / "proof_time.md").write_text(f"{page}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
