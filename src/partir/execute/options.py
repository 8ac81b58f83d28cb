"""Options for XLA that a program needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import jax

from partir.execute.jax_private import SCHEDULER_TYPES
from partir.spmd.export_policy import ExportPolicy, policy_of
from partir.spmd.preparations.joint_moves import joins_moves
from partir.spmd.preparations.prepare import has_ties, prepared
from partir.spmd.preparations.product_order import waits_of
from partir.spmd.preparations.weight_sizes import gathers_most
from partir.spmd.program import Collective, SpmdProgram, has_barriers

CompilerOption: TypeAlias = bool | int | float | str
CompilerOptions: TypeAlias = Mapping[str, CompilerOption]
"""Names of XLA's options with their values."""

_COPIES: CompilerOptions = {"xla_cpu_copy_insertion_use_region_analysis": True}
_MEMORY: CompilerOptions = (
    {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
    if SCHEDULER_TYPES
    else {"xla_cpu_enable_concurrency_optimized_scheduler": False}
)


_BARRIERS, _EXPANDER = "xla_disable_hlo_passes", "cse_barrier_expander"


class _Light(str):
    """A value that one can go without: it only saves memory, or time to compile."""

    __slots__ = ()


def missed(options: CompilerOptions | None) -> CompilerOptions:
    """Those of a program's options that one should not go without."""
    light = _COPIES.items() | _MEMORY.items()
    return {
        name: value
        for name, value in (options or {}).items()
        if (name, value) not in light and not isinstance(value, _Light)
    }


def default_options(
    mesh: jax.sharding.Mesh, program: SpmdProgram
) -> dict[str, CompilerOption]:
    """What to tell XLA on these devices.

    XLA:CPU drops optimization barriers early, then merges a weight's gathers for the
    forward and the backward pass and keeps the weight in between. Other back ends keep
    barriers by themselves. Where weights are larger than activations it is told to mind
    memory before all else. It also copies every donated argument of which it can't tell
    that it is read for the last time before it is overwritten, and what loops carry,
    unless it looks at regions of the program as other back ends do.
    """
    platform = mesh.devices.flat[0].platform
    if platform != "cpu":
        return {}
    policy = policy_of(platform)
    options = dict(_COPIES) if policy.orders_reads else {}
    nested = program.program.nested  # only in loops are more gathers tied
    ready = prepared(program, policy) if nested else program
    if policy.minds_memory and gathers_most(ready):
        options |= _MEMORY
    if has_ties(ready):
        options[_BARRIERS] = _EXPANDER
    elif _holds(ready, policy):
        options[_BARRIERS] = _Light(_EXPANDER)
    return options


def _holds(program: SpmdProgram, policy: ExportPolicy) -> bool:
    """Whether anything but gathers depends on barriers."""
    if waits_of(program, policy):
        return True
    joint = policy.moves_together and joins_moves(program)
    cut = policy.outer_tiles and _exchanges(program)
    return joint or cut or has_barriers(program, written=False)


def _exchanges(program: SpmdProgram) -> bool:
    """Whether devices exchange tiles, which are cut from places behind a barrier."""
    return any(
        isinstance(op, Collective) and op.kind == "all_to_all"
        for op, _ in program.walk()
    )
