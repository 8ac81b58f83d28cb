"""A partition and the whole program, both run on numbers drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np

import partir
from partir.api.partitioned import Partitioned
from partir.cli.demo import virtual_devices
from partir.errors import PartitionError
from partir.execute.compiled import Compiled
from partir.execute.runner import CallPlan
from partir.mesh import Mesh

_MOST_DEVICES = 64


@dataclass(frozen=True)
class Compared:
    """A result of both runs: how far they are apart, relative to its largest number."""

    result: str
    difference: float
    limit: float

    @property
    def agrees(self) -> bool:
        """Whether that is rounding."""
        return self.difference <= self.limit

    def __str__(self) -> str:
        """As it is printed where they differ."""
        return f"{self.result} differs by {self.difference:.1e}"

    def to_json(self) -> dict[str, Any]:
        """As data."""
        return {**asdict(self), "agrees": self.agrees}


def compare_runs(partitioned: Partitioned, seed: int = 0) -> tuple[Compared, ...]:
    """Run the partition on virtual devices and the program on one; compare."""
    program, mesh = partitioned.program, partitioned.mesh
    with jax.enable_x64(True):
        random = np.random.default_rng(seed)
        alone = partir.partition(program, {"one": 1}, [], verify="off").compile()
        arrays = [_drawn(random, aval) for aval in alone.plan.in_avals]
        schedule = partitioned.schedule()  # proved before, and compared now
        split = partir.partition(program, mesh, schedule, verify="off").compile()
        _refuse_padding(split.plan, alone.plan)
        names = [port.name for port in program.results]
        return tuple(map(_compared, names, _run(split, arrays), _run(alone, arrays)))


def start_devices(mesh: Mesh) -> None:
    """As many virtual devices as the mesh has, before jax starts with others."""
    if mesh.size > _MOST_DEVICES:
        raise PartitionError(
            f"--run runs all devices of the mesh on this machine: {mesh.size} are more "
            f"than {_MOST_DEVICES}; a smaller mesh of the same axes tries the schedule"
        )
    virtual_devices(mesh.size)


def _run(compiled: Compiled, arrays: Sequence[Any]) -> Any:
    specs = compiled.plan.in_specs
    places = [jax.sharding.NamedSharding(compiled.mesh, spec) for spec in specs]
    return compiled.jitted(*map(jax.device_put, arrays, places))


def _refuse_padding(split: CallPlan, alone: CallPlan) -> None:
    pairs = zip(split.in_names, split.in_avals, alone.in_avals, strict=True)
    for name, padded, whole in pairs:
        if padded.shape != whole.shape:
            raise PartitionError(f"--run does not pad: a tactic pads {name}")


def _drawn(random: np.random.Generator, struct: jax.ShapeDtypeStruct) -> Any:
    """Floats of which roots and logarithms can be taken, small whole numbers, keys."""
    if jax.dtypes.issubdtype(struct.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), struct.shape)
    if np.issubdtype(struct.dtype, np.integer) or struct.dtype == np.bool_:
        return random.integers(0, 2, struct.shape).astype(struct.dtype)
    return random.uniform(0.1, 1.0, struct.shape).astype(struct.dtype)


def _rounding(dtype: Any) -> float:
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]  # none


def _compared(name: str, got: Any, want: Any) -> Compared:
    dtype = np.asarray(want).dtype
    exact = np.issubdtype(dtype, np.integer) or dtype == np.bool_
    limit = 0.0 if exact else _rounding(dtype) ** 0.5
    wide = np.complex128 if np.issubdtype(dtype, np.complexfloating) else np.float64
    left, right = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
    finite = np.isfinite(right)
    if not np.array_equal(np.isfinite(left), finite):
        return Compared(name, float("inf"), limit)
    left, right = left[finite], right[finite]
    apart = np.max(np.abs(left - right), initial=0.0)
    scale = np.max(np.abs(right), initial=0.0)
    return Compared(name, float(apart / scale) if apart else 0.0, limit)
