"""Options for XLA that a program needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import jax

from partir.spmd.prepare import has_ties
from partir.spmd.program import SpmdProgram

CompilerOption: TypeAlias = bool | int | float | str
CompilerOptions: TypeAlias = Mapping[str, CompilerOption]
"""Names of XLA's options with their values."""


def default_options(
    mesh: jax.sharding.Mesh, program: SpmdProgram
) -> dict[str, CompilerOption]:
    """What to tell XLA on these devices.

    XLA:CPU drops optimization barriers early, then merges a weight's gathers for the
    forward and the backward pass and keeps the weight in between. Other back ends keep
    barriers by themselves.
    """
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    if on_cpu and has_ties(program):
        return {"xla_disable_hlo_passes": "cse_barrier_expander"}
    return {}
