"""`Facts`: what fusing asks of an op: its role, its work, what it reads."""

from __future__ import annotations

import math
from typing import NamedTuple

from partir.rules.nest import Nest
from partir.rules.traits import Role, repeats, rounds, window_bytes
from partir.simulate.device.fusion_policy import FusionPolicy
from partir.simulate.kernels.work import Work, work_of
from partir.spmd.program import SLICE, Collective, Compute, SpmdOp


class Facts(NamedTuple):
    """What does not depend on where an op stands, under one policy.

    `window` is the bytes that it reads of its first operand, if not all of it.
    `single` is whether it repeats a single number. `fused` and `recomputed` are whether
    its readers' kernels compute it, and whether several may.
    """

    role: Role
    work: Work
    repeats: bool
    single: bool
    window: float | None
    fused: bool
    recomputed: bool


_SLICE = Facts(Role.CHEAP, Work(), False, False, 0.0, True, True)


def facts_of(op: SpmdOp, policy: FusionPolicy) -> Facts | None:
    """Role and work of an op; None for communication and control flow."""
    if not isinstance(op, Compute):
        sliced = isinstance(op, Collective) and op.kind == SLICE
        return _SLICE if sliced else None
    nest = op.nest
    known = nest.cache.get(policy.key)
    if isinstance(known, Facts):
        return known
    role, repeated = policy.role_of(nest), repeats(nest)
    facts = Facts(
        role,
        work_of(nest),
        repeated,
        all(math.prod(type_.shape) == 1 for type_ in nest.operand_types),
        window_bytes(nest),
        role in policy.fused,
        repeated or (role in policy.recomputed and not _is_rounded(nest, policy)),
    )
    nest.cache[policy.key] = facts
    return facts


def _is_rounded(nest: Nest, policy: FusionPolicy) -> bool:
    return policy.rounds_once and rounds(nest)
