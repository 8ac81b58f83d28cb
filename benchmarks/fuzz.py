"""Random schedules against one device, reproducibly.

    python -m benchmarks.fuzz MODULE.mlir[.gz] … [--seeds 0:10] [--mesh A=2,B=2,C=2]

For each StableHLO module and seed: a random schedule (arguments, dimensions and axes by
lot, one to three tactics, some values kept whole), partitioned, checked, run on virtual
CPU devices with random inputs and compared with the unpartitioned module. Prints a line
per run; exits with 1 if one fails. `random_schedule` and `difference` serve tests too.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import partir
from partir.execute.types import jax_struct
from partir.ir.types import TensorType
from partir.partition.check import check

LIMIT = 1e-3  # relative to a result's largest value, for 32-bit floats


@dataclass(frozen=True)
class Lot:
    """A tactic that takes actions drawn by lot; those that can't be are left out."""

    name: str
    actions: tuple[tuple[str, int | None, str], ...]  # value, dimension or whole, axis

    def apply(self, partition: partir.Partition) -> None:
        for name, dim, axis in self.actions:
            try:
                if dim is None:
                    partition.atomic(name, axis)
                else:
                    partition.tile(name, dim, axis)
            except partir.PartitionError:
                continue


def random_schedule(program: partir.Program, mesh: partir.Mesh, seed: int) -> list[Lot]:
    """One to three tactics over random arguments; the same for the same seed."""
    rng = random.Random(seed)
    ports = [port for port in program.arguments if port.rank]
    tactics = []
    for number in range(rng.choice([1, 2, 3])):
        axis = rng.choice(mesh.names)
        chosen = rng.sample(ports, min(len(ports), rng.choice([1, 2, 4, 8])))
        actions = tuple(
            (p.name, None if rng.random() < 0.1 else rng.randrange(p.rank), axis)
            for p in chosen
        )
        tactics.append(Lot(f"lot {number} over {axis}", actions))
    return tactics


def random_input(type_: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Small floats, small whole numbers, booleans."""
    struct = jax_struct(type_)
    kind = np.dtype(struct.dtype).kind
    if kind in "iu":
        return rng.integers(0, 3, struct.shape).astype(struct.dtype)
    if kind == "b":
        return rng.integers(0, 2, struct.shape).astype(bool)
    return np.asarray(0.1 * rng.standard_normal(struct.shape)).astype(struct.dtype)


def difference(have: Sequence[Any], want: Sequence[Any]) -> float:
    """Largest difference relative to each result's largest value."""
    return max(
        (
            _one_difference(np.asarray(h), np.asarray(w))
            for h, w in zip(have, want, strict=True)
        ),
        default=0.0,
    )


def _one_difference(have: np.ndarray, want: np.ndarray) -> float:
    if want.dtype.kind in "iub":
        return float(np.mean(have != want)) if want.size else 0.0
    have, want = have.astype(np.complex128), want.astype(np.complex128)
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(have)):
        return float("inf")
    largest = np.max(np.abs(want[finite]), initial=0.0)
    return float(np.max(np.abs(have - want)[finite], initial=0.0) / (largest + 1e-30))


def fuzz_module(path: str, mesh: partir.Mesh, seeds: range) -> bool:
    """Run all seeds on one module; whether all agree."""
    program = partir.load(path)
    rng = np.random.default_rng(0)
    args = [random_input(program.types[p.value], rng) for p in program.arguments]
    expected = partir.partition(program, {"one": 1}, []).compile()(*args)
    good = True
    for seed in seeds:
        start = time.perf_counter()
        record = partir.partition(program, mesh, random_schedule(program, mesh, seed))
        for step in record.steps:
            check(step.state)
        error = difference(record.compile()(*args), expected)
        good &= error < LIMIT
        counts = "/".join(map(str, record.collectives.values()))
        seconds = time.perf_counter() - start
        verdict = "ok" if error < LIMIT else "DIFFERS"
        print(
            f"{path} seed {seed}: {counts} error {error:.1e} {seconds:.1f}s {verdict}"
        )
    return good


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Random schedules against one device.")
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--seeds", default="0:5", help="first:end")
    parser.add_argument("--mesh", default="A=2,B=2,C=2")
    options = parser.parse_args(argv)
    mesh = partir.Mesh.parse(options.mesh)
    jax.config.update("jax_num_cpu_devices", mesh.size)
    seeds = range(*map(int, options.seeds.split(":")))
    return 0 if all([fuzz_module(m, mesh, seeds) for m in options.modules]) else 1


if __name__ == "__main__":
    sys.exit(main())
