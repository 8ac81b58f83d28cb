"""How long a proof takes beside partitioning and beside XLA.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \\
        python -m benchmarks.proof_time [--layers 32] [--runs 3] [--compile]

The transformer's training step, B=4 and M=2, in processor seconds, the best of several
runs in turn: partitioning with the export of the device-local module, its proof (which
reads that module back), and with `--compile` XLA's own compilation of it.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import partir
from benchmarks.models import schedules, transformer
from benchmarks.tables import format_table

MESH = {"B": 4, "M": 2}
SCHEDULES = ("BP+MP", "BP+MP+Z3")


def measured(run: Any) -> tuple[float, Any]:
    """Processor seconds of a call, and what it returned."""
    begin = time.process_time()
    made = run()
    return time.process_time() - begin, made


def once(program: Any, tactics: Any) -> tuple[float, float, Any]:
    """Seconds to partition and export, and to prove."""

    def partitioned() -> Any:
        done = partir.partition(program, MESH, tactics)
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


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time of proofs.")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="beside XLA's time")
    options = parser.parse_args(argv)
    config = transformer.Config.small(layers=options.layers, biased=True)
    args, kwargs = transformer.example_args(config)
    program = partir.trace(transformer.step_for(config), *args, **kwargs)
    known = schedules.schedules_for(separate=config.separate)
    header = ["schedule", "ops", "partitioning", "proof", "proof / partitioning"]
    header += ["XLA", "both / XLA"] if options.compile else []
    rows = [row(program, name, known[name], options) for name in SCHEDULES]
    print(format_table(tuple(header), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
