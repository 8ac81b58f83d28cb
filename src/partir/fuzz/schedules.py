"""Random meshes and schedules, and schedules as lists of actions that can be cut."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass
from typing import Any

from partir.errors import PartitionError
from partir.mesh import Mesh
from partir.partition.actions import Partition

MESHES = (
    {"A": 2},
    {"A": 3},
    {"A": 4},
    {"A": 5},
    {"A": 4, "B": 1},
    {"A": 2, "B": 2},
    {"A": 2, "B": 3},
    {"A": 4, "B": 2},
    {"A": 2, "B": 4},
    {"A": 2, "B": 2, "C": 2},
)


def random_mesh(rng: random.Random) -> Mesh:
    """One to three axes, at most eight devices."""
    return Mesh(rng.choice(MESHES))


def random_schedule(rng: random.Random) -> list[Lot]:
    """One to three tactics that draw when they are applied."""
    return [
        Lot(f"lot {n}", rng.getrandbits(32)) for n in range(rng.choice([1, 1, 2, 3]))
    ]


@dataclass(frozen=True)
class Lot:
    """Values tiled or kept whole, loops chosen, gathers kept: all by lot."""

    name: str
    seed: int

    def apply(self, partition: Partition) -> None:
        """Take actions that the partition allows; those it refuses are left out."""
        rng = random.Random(self.seed)
        inner = partition.values("%**") if rng.random() < 0.7 else []
        values = [*partition.values("**"), *partition.results("**"), *inner]
        values = [v for v in values if v.shape]
        count = rng.choice([1, 2, 3, 4, 6, 8])
        for value in rng.choices(values, k=count) if values else ():
            with contextlib.suppress(PartitionError):
                self._act(partition, value, rng)
        if rng.random() < 0.7:
            self._resolve(partition, rng)
        self._keep(partition, values)

    def _keep(self, partition: Partition, values: list[Any]) -> None:
        """Say of some tiled values how often they are gathered."""
        rng = random.Random(f"{self.seed} gathered")  # the rest stays what it was
        for value in values if rng.random() < 0.2 else ():
            axes = [axis for axes in value.tiling for axis in axes]
            if axes and rng.random() < 0.5:
                how = rng.choice(["keep", "rest", "rest", "again"])
                partition.gathered(value, rng.choice(axes), how)

    def _act(self, partition: Partition, value: Any, rng: random.Random) -> None:
        lot = rng.random()
        if lot < 0.1:
            axis = rng.choice(partition.mesh.names)
            partition.atomic(value, axis, at="uses" if lot < 0.05 else "everywhere")
        elif lot < 0.14:
            axis = rng.choice(partition.mesh.names)
            partition.gathered(value, axis, "keep" if lot < 0.12 else "again")
        elif lot < 0.2:
            axis = rng.choice(partition.mesh.names)
            maker = partition.program.addresses.get(value.number, value.name)
            partition.choose(maker, rng.randrange(3), axis)
        elif places := _places(partition, value, uneven=lot < 0.36):
            partition.tile(value, *rng.choice(places))
        if lot > 0.85:
            partition.propagate(rng.choice([*partition.mesh.names, None]))

    def _resolve(self, partition: Partition, rng: random.Random) -> None:
        partition.propagate()
        for op in partition.conflicts():
            if rng.random() < 0.6 and op.factors:
                # An earlier choice may have settled this one.
                with contextlib.suppress(PartitionError):
                    partition.choose(op, rng.choice(op.factors), op.axis)


def _places(
    partition: Partition, value: Any, uneven: bool = False
) -> list[tuple[int, str]]:
    """Dimensions and axes that divide them, or give each device some of them."""
    return [
        (dim, axis)
        for axis, parts in partition.mesh.axes.items()
        if not value.decided(axis)
        for dim, size in enumerate(value.local_shape)
        if size and (size % parts == 0 or (uneven and size > parts))
    ]
