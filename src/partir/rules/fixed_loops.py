"""Ops whose loops are fixed, not chosen: shard_maps, and numbers to be drawn once."""

from __future__ import annotations

from collections.abc import Mapping

from partir.ir.core import Signature
from partir.rules import manual, random
from partir.rules.nest import Nest

FIXED = (manual.KIND, random.DRAW)


def has_fixed_loops(op: Signature) -> bool:
    """Whether an op comes with its loops."""
    return op.kind in FIXED


def fixed_loops_nest(op: Signature, axes: Mapping[str, int]) -> Nest:
    """Such an op in its loops on a mesh of these axes."""
    find = manual.fixed_nest if op.kind == manual.KIND else random.drawn_once
    return find(op, axes)
