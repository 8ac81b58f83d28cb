"""Random schedules against one device, reproducibly.

    python -m benchmarks.fuzz MODULE.mlir[.gz] … [--seeds 0:10] [--mesh A=2,B=2,C=2]
    python -m benchmarks.fuzz zoo:gpt2 zoo:t5 … | zoo:all [--inner] …

For each StableHLO module, or training step of `benchmarks.zoo`, and seed: a random
schedule (arguments, dimensions and axes by lot, one to three tactics, some values kept
whole), partitioned, checked, run on virtual CPU devices with random inputs and compared
with the unpartitioned module. With `--inner`, tactics that take values inside the
program and resolve conflicts by lot follow. Prints a line per run; exits with 1 if one
fails. `random_schedule`, `inner_schedule` and `difference` serve tests too.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import partir
from partir.execute.types import jax_struct
from partir.ir.types import TensorType
from partir.partition.check import check

LIMIT = 1e-3  # relative to a result's largest value, for 32-bit floats
SMALL = 1e-7  # results smaller than this may be noise: gradients that vanish


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


@dataclass(frozen=True)
class InnerLot:
    """A tactic on values inside the program, drawn by lot; so are some conflicts."""

    name: str
    seed: int

    def apply(self, partition: partir.Partition) -> None:
        rng = random.Random(self.seed)
        values = [
            v for v in partition.values("**") + partition.values("%**") if v.shape
        ]
        for value in rng.sample(values, min(len(values), rng.choice([1, 2, 3, 5]))):
            with contextlib.suppress(partir.PartitionError):
                self._act(partition, value, rng)
        partition.propagate()
        for op in partition.conflicts():
            if rng.random() < 0.5 and op.factors:
                # An earlier choice may have settled this one.
                with contextlib.suppress(partir.PartitionError):
                    partition.choose(op, rng.choice(op.factors), op.axis)

    def _act(self, partition: partir.Partition, value: Any, rng: random.Random) -> None:
        axis, lot = rng.choice(partition.mesh.names), rng.random()
        if lot < 0.16:
            partition.atomic(value, axis, at="uses" if lot < 0.08 else "everywhere")
        else:
            partition.tile(value, rng.randrange(len(value.shape)), axis)
        if lot > 0.7:
            partition.propagate()


def inner_schedule(program: partir.Program, mesh: partir.Mesh, seed: int) -> list[Any]:
    """Tactics on arguments for two seeds of three, then some on inner values."""
    rng = random.Random(seed)
    outer = random_schedule(program, mesh, seed) if seed % 3 else []
    count = rng.choice([1, 2, 3])
    return [*outer, *(InnerLot(f"inner {n}", 10 * seed + n) for n in range(count))]


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
    if not np.array_equal(have[~finite], want[~finite], equal_nan=True):
        return float("inf")
    have, want = have[finite], want[finite]
    largest = np.max(np.abs(want), initial=0.0)
    off = np.max(np.abs(have - want), initial=0.0)
    if not np.isfinite(off):
        return float("inf")
    return float(off / max(largest, SMALL))


@dataclass(frozen=True)
class Target:
    """What is partitioned, with arguments and what one device makes of them."""

    name: str
    what: Any  # a Program, or a function and its example arguments
    example: tuple[Any, ...]
    program: partir.Program
    args: Sequence[Any]
    expected: Sequence[Any]
    limit: float


def load_module(path: str) -> Target:
    """A StableHLO module with random inputs."""
    program = partir.load(path)
    rng = np.random.default_rng(0)
    args = [random_input(program.types[p.value], rng) for p in program.arguments]
    alone = partir.partition(program, {"one": 1}, [], verify="off")
    expected = alone.compile()(*args)
    return Target(path, program, (), program, args, expected, LIMIT)


def load_zoo(name: str) -> Target:
    """A model of the collection, in 64 bits."""
    from benchmarks.zoo import CASES  # needs packages that modules don't

    case = CASES[name]()
    expected = jax.tree.leaves(jax.jit(case.step)(*case.args))
    program = partir.trace(case.step, *case.args)
    return Target(
        f"zoo:{name}", case.step, case.args, program, case.args, expected, case.limit
    )


def fuzz(target: Target, mesh: partir.Mesh, seeds: range, inner: bool) -> bool:
    """Run all seeds; whether all agree."""
    make = inner_schedule if inner else random_schedule
    good = True
    for seed in seeds:
        start = time.perf_counter()
        record = partir.partition(
            target.what,
            mesh,
            make(target.program, mesh, seed),
            args=target.example,
            verify="off",  # it is compared
        )
        for step in record.steps:
            check(step.state)
        made = jax.tree.leaves(record.compile()(*target.args))
        error = difference(made, target.expected)
        good &= error < target.limit
        counts = "/".join(map(str, record.collectives.values()))
        seconds = time.perf_counter() - start
        verdict = "ok" if error < target.limit else "DIFFERS"
        print(
            f"{target.name} seed {seed}: {counts} error {error:.1e} {seconds:.1f}s "
            f"{verdict}",
            flush=True,
        )
    return good


def targets(names: Sequence[str]) -> Iterator[Target]:
    """Modules by path, models by name."""
    for name in names:
        if name == "zoo:all":
            from benchmarks.zoo import CASES

            yield from map(load_zoo, CASES)
        elif name.startswith("zoo:"):
            yield load_zoo(name.removeprefix("zoo:"))
        else:
            yield load_module(name)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Random schedules against one device.")
    parser.add_argument("modules", nargs="+", help="paths, or zoo:NAME, or zoo:all")
    parser.add_argument("--seeds", default="0:5", help="first:end")
    parser.add_argument("--mesh", default="A=2,B=2,C=2")
    parser.add_argument("--inner", action="store_true", help="inner values too")
    options = parser.parse_args(argv)
    mesh = partir.Mesh.parse(options.mesh)
    jax.config.update("jax_num_cpu_devices", mesh.size)
    seeds = range(*map(int, options.seeds.split(":")))
    if any(name.startswith("zoo:") for name in options.modules):
        jax.config.update("jax_enable_x64", True)
    found = targets(options.modules)
    return 0 if all([fuzz(one, mesh, seeds, options.inner) for one in found]) else 1


if __name__ == "__main__":
    sys.exit(main())
