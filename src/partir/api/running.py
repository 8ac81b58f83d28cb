"""`Running`: where and how a program will run, and what its estimates are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import jax

from partir.api.accepted import DevicesLike, MeshLike
from partir.errors import PartitionError
from partir.execute.agreement import shared
from partir.execute.options import CompilerOptions
from partir.explain.expectations import Expected, limits
from partir.mesh import Mesh
from partir.partition.actions import Share
from partir.simulate.device.lookup import DeviceLike
from partir.simulate.estimate import Setting

Verification = Literal["on", "off"]
DEFAULT_VERIFICATION: Verification = "on"


@dataclass(frozen=True)
class Running:
    """Where and how to run, strictness, and what is expected of the partition."""

    devices: DevicesLike | None = None
    compiler_options: CompilerOptions | None = None
    strict: bool = False
    device: DeviceLike | None = None
    expect: Expected | None = None
    verify: Verification = DEFAULT_VERIFICATION

    def __post_init__(self) -> None:
        """Check what is used only later: when XLA compiles, when all is done."""
        options = self.compiler_options
        if options is not None and not isinstance(options, Mapping):
            raise PartitionError(
                "compiler_options maps names of XLA's options to values, for example "
                f'{{"xla_cpu_enable_fast_math": True}}; got {options!r}'
            )
        if self.expect is not None:
            limits(self.expect)
        if self.verify not in get_args(Verification):
            raise PartitionError(f'verify is "on" or "off", got {self.verify!r}')

    def setting(
        self, mesh: Mesh, donated: Callable[[], Sequence[bool] | None]
    ) -> Setting:
        """What estimates need; the mesh must fit on the device."""
        return Setting.of(self.device, mesh, donated)

    def share(self, mesh: Mesh) -> Share:
        """How processes get what the first of them makes."""
        return partial(shared, mesh=mesh, devices=self.devices)


def real_mesh(mesh: MeshLike) -> jax.sharding.Mesh | None:
    """A jax mesh brings its devices along; an abstract one has none."""
    return mesh if isinstance(mesh, jax.sharding.Mesh) else None
