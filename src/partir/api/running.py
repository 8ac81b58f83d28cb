"""From a program and a schedule to a `Partitioned` that knows where it will run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from partir.api.accepted import DeviceLike, DevicesLike, MeshLike
from partir.api.partitioned import Partitioned
from partir.api.pipeline import run_schedule
from partir.errors import PartitionError
from partir.execute.agreement import shared
from partir.execute.interface import Interface
from partir.frontend.parameters import Options
from partir.ir.core import Program
from partir.mesh import Mesh
from partir.report.remarks import refuse_whole
from partir.simulate.estimate import Setting
from partir.tactics.schedule import Schedule


@dataclass(frozen=True)
class Running:
    """Where and how to run, and strictness."""

    devices: DevicesLike | None = None
    compiler_options: Mapping[str, Any] | None = None
    strict: bool = False
    device: DeviceLike | None = None

    def __post_init__(self) -> None:
        """Check what goes to XLA only when it compiles."""
        options = self.compiler_options
        if options is not None and not isinstance(options, Mapping):
            raise PartitionError(
                "compiler_options maps names of XLA's options to values, for example "
                f'{{"xla_cpu_enable_fast_math": True}}; got {options!r}'
            )


def partition_program(
    program: Program,
    mesh: Mesh,
    schedule: Schedule,
    fn: Callable[..., Any] | None,
    options: Options,
    running: Running,
) -> Partitioned:
    """Apply the schedule; `strict` refuses ops that are computed whole."""

    def donated() -> tuple[bool, ...] | None:
        try:
            return Interface.of(program, fn, options).donated
        except PartitionError:  # what can't be called has nothing to donate
            return None

    def share(make: Callable[[], bytes]) -> bytes:
        return shared(make, mesh, running.devices)

    setting = Setting.of(running.device, mesh, donated)
    made, steps = run_schedule(program, mesh, schedule, setting, share)
    partitioned = Partitioned(
        made,
        steps,
        fn=fn,
        options=options,
        devices=running.devices,
        compiler_options=running.compiler_options,
    )
    if running.strict:
        refuse_whole(partitioned.replicated_ops)
    return partitioned


def real_mesh(mesh: MeshLike) -> jax.sharding.Mesh | None:
    """A jax mesh brings its devices along; an abstract one has none."""
    return mesh if isinstance(mesh, jax.sharding.Mesh) else None
