"""Options for XLA that a program needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import jax

from partir.spmd.export_policy import policy_of
from partir.spmd.prepare import has_ties, prepared
from partir.spmd.program import SpmdProgram

CompilerOption: TypeAlias = bool | int | float | str
CompilerOptions: TypeAlias = Mapping[str, CompilerOption]
"""Names of XLA's options with their values."""

_COPIES: CompilerOptions = {"xla_cpu_copy_insertion_use_region_analysis": True}


def missed(options: CompilerOptions | None) -> CompilerOptions:
    """Those of a program's options that one should not go without."""
    return {k: v for k, v in (options or {}).items() if (k, v) not in _COPIES.items()}


def default_options(
    mesh: jax.sharding.Mesh, program: SpmdProgram
) -> dict[str, CompilerOption]:
    """What to tell XLA on these devices.

    XLA:CPU drops optimization barriers early, then merges a weight's gathers for the
    forward and the backward pass and keeps the weight in between. Other back ends keep
    barriers by themselves. It also copies every donated argument of which it can't tell
    that it is read for the last time before it is overwritten, and what loops carry,
    unless it looks at regions of the program as other back ends do.
    """
    platform = mesh.devices.flat[0].platform
    if platform != "cpu":
        return {}
    policy = policy_of(platform)
    options = dict(_COPIES) if policy.orders_reads else {}
    nested = program.program.nested  # only in loops are more gathers tied
    if has_ties(prepared(program, policy) if nested else program):
        options["xla_disable_hlo_passes"] = "cse_barrier_expander"
    return options
