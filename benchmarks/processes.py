"""Two processes of four devices beside one process, for every schedule of the README.

    python -m benchmarks.processes [--schedules BP BP+MP …]

A training step of a small transformer with Adam in 64-bit floats, two steps under each
schedule: what the processes hold of the loss, parameters and optimiser state is put
together and compared with `jax.jit` on one device. Everything stays on this machine,
and the processes end by themselves. Exits with 1 if something differs.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import partir
from benchmarks.models import schedules, transformer
from benchmarks.tables import format_table

MESH = {"B": 4, "M": 2}
STEPS = 2
SECONDS = 600
LIMIT = 1e-9  # relative to an array's largest number
CONFIG = transformer.Config(
    layers=1,
    width=16,
    heads=4,
    head_dim=4,
    hidden=32,
    vocab=16,
    sequence=8,
    batch=8,
    dtype="float64",
)
SCHEDULES: dict[str, list[Any]] = {
    **schedules.SCHEDULES,
    "BP+Z3": [schedules.BP, schedules.Z3],
}


def start() -> tuple[Any, Any]:
    """Parameters with optimiser state, and a batch, as arrays of the host."""
    first, second = jax.random.split(jax.random.key(0))
    made = transformer.init(CONFIG, first), transformer.example_batch(CONFIG, second)
    state, batch = jax.tree.map(np.asarray, made)
    return state, batch


def trained(step: Any) -> dict[str, np.ndarray]:
    """The loss and the state after some steps, of which this process holds parts."""
    state, batch = start()
    for _ in range(STEPS):
        *state, loss = step(*state, *batch)
    return {"loss": np.asarray(loss), **held(state)}


def held(tree: Any) -> dict[str, np.ndarray]:
    """Whole arrays in which what is elsewhere is nan."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        whole = np.full(leaf.shape, np.nan)
        for shard in leaf.addressable_shards:
            whole[shard.index] = shard.data
        found[jax.tree_util.keystr(path)] = whole
    return found


def work(address: str, number: int, folder: Path, names: Sequence[str]) -> None:
    """One of the two processes."""
    jax.config.update("jax_num_cpu_devices", 4)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=2, process_id=number)
    for name in names:
        step = partir.jit(transformer.train_step, MESH, SCHEDULES[name])
        np.savez(folder / f"{name}.{number}.npz", **trained(step))
    jax.distributed.shutdown()


def run_both(folder: Path, names: Sequence[str]) -> None:
    """Start both processes and wait for them."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    command = [sys.executable, "-m", "benchmarks.processes", "--schedules", *names]
    environment = {n: v for n, v in os.environ.items() if n != "XLA_FLAGS"}
    both = [
        subprocess.Popen(
            [*command, "--worker", address, str(number), str(folder)], env=environment
        )
        for number in (0, 1)
    ]
    try:
        for process in both:
            if process.wait(timeout=SECONDS):
                raise SystemExit(f"process {both.index(process)} failed")
    finally:
        for process in both:
            process.kill()


def difference(folder: Path, name: str, want: dict[str, np.ndarray]) -> float:
    """The largest difference of both processes from one, relative to each array."""
    parts = [np.load(folder / f"{name}.{number}.npz") for number in (0, 1)]
    worst = 0.0
    for key, whole in want.items():
        have = np.where(np.isnan(parts[0][key]), parts[1][key], parts[0][key])
        largest = max(float(np.max(np.abs(whole), initial=0.0)), 1e-30)
        off = float(np.max(np.abs(have - whole), initial=0.0)) / largest
        worst = max(worst, off if np.isfinite(off) else float("inf"))
    return worst


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Two processes beside one.")
    parser.add_argument("--schedules", nargs="+", choices=SCHEDULES)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    names = options.schedules or list(SCHEDULES)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    if options.worker:
        address, number, folder = options.worker
        work(address, int(number), Path(folder), names)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        run_both(Path(temporary), names)
        want = trained(jax.jit(transformer.train_step))
        found = {n: difference(Path(temporary), n, want) for n in names}
    rows = [(name, f"{off:.1e}") for name, off in found.items()]
    print(format_table(("schedule", "largest relative difference"), rows))
    return 0 if all(off < LIMIT for off in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
