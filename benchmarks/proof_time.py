"""How long a proof takes beside partitioning and beside XLA, and how it grows.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \\
        python -m benchmarks.proof_time [--layers 32] [--runs 3] [--compile]
                                        [--depths 8 16 32] [--write]

The transformer's training step, B=4 and M=2, in processor seconds, the best of several
runs in turn: partitioning with the export of the device-local module, its proof (which
reads that module back), and with `--compile` XLA's own compilation of it. With
`--depths`, the same at several depths, and what a proof takes of memory at most beside
the module's text. `--write` makes a page of results.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from typing import Any

import jax

import partir
from benchmarks.models import schedules, transformer
from benchmarks.results_page import RESULTS, head, markdown, virtual_devices
from benchmarks.tables import format_table

MESH = {"B": 4, "M": 2}
SCHEDULES = ("BP+MP", "BP+MP+Z3")
HEADER = ("schedule", "ops", "partitioning", "proof", "proof / partitioning")
GROWTH = ("layers", "ops", "proof", "µs per op", "memory, MB", "text, MB")
Table = tuple[tuple[str, ...], list[tuple[Any, ...]]]


def measured(run: Any) -> tuple[float, Any]:
    """Processor seconds of a call, and what it returned."""
    begin = time.process_time()
    made = run()
    return time.process_time() - begin, made


def traced(layers: int) -> tuple[Any, dict[str, Any]]:
    """The step, and schedules by name."""
    config = transformer.Config.small(layers=layers, biased=True)
    args, kwargs = transformer.example_args(config)
    program = partir.trace(transformer.step_for(config), *args, **kwargs)
    return program, schedules.schedules_for(separate=config.separate)


def once(program: Any, tactics: Any) -> tuple[float, float, Any]:
    """Seconds to partition and export, and to prove."""

    def partitioned() -> Any:
        done = partir.partition(program, MESH, tactics, verify="off")
        done.stablehlo()
        return done

    first, done = measured(partitioned)
    second, proof = measured(done.proof)
    assert not proof.not_proved, proof
    return first, second, done


def row(program: Any, name: str, tactics: Any, options: Any) -> tuple[Any, ...]:
    """Best times of one schedule."""
    runs = [once(program, tactics) for _ in range(options.runs)]
    partition, proof = (min(run[n] for run in runs) for n in (0, 1))
    ops = len(program.ops)
    cells = [name, ops, f"{partition:.2f}", f"{proof:.2f}", f"{proof / partition:.2f}"]
    if options.compile:
        lowered = runs[-1][2].compile().lower_abstract()
        seconds, _ = measured(lowered.compile)
        share = (partition + proof) / seconds
        cells += [f"{seconds:.1f}", f"{share:.1%}"]
    return tuple(cells)


def times(options: Any) -> Table:
    """Beside partitioning, and beside XLA if asked."""
    program, known = traced(options.layers)
    header = (*HEADER, "XLA", "both / XLA") if options.compile else HEADER
    return header, [row(program, name, known[name], options) for name in SCHEDULES]


def growth(depths: list[int], runs: int) -> Table:
    """Time and memory by depth."""
    rows = []
    for layers in depths:
        program, known = traced(layers)
        found = [once(program, known[SCHEDULES[0]]) for _ in range(runs)]
        seconds, done = min(second for _, second, _ in found), found[-1][2]
        tracemalloc.start()
        done.proof()
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        ops, text = len(program.ops), len(done.stablehlo()) / 1e6
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
