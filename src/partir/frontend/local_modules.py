"""Modules that are the program of one device already: refused, not partitioned again.

Their shapes are local and their collectives join devices that are not in our mesh;
taken for a whole program, they would give wrong numbers without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.mlir import ir

from partir.errors import PartitionError
from partir.frontend.reader import MANUAL
from partir.ir.attributes import EXPORTED
from partir.ir.core import Lambda
from partir.ir.source import Location

_LOCAL = frozenset(
    "stablehlo." + name
    for name in (
        "partition_id replica_id all_gather all_reduce all_to_all async_done "
        "async_start collective_broadcast collective_permute cross-replica-sum "
        "reduce_scatter"
    ).split()
) | frozenset(
    "sdy." + name
    for name in (
        "all_gather all_reduce all_slice all_to_all collective_permute "
        "reduce_scatter replicated_to_unreduced sharded_to_unreduced"
    ).split()
)
# Between devices, or between a device and its host.
_TRANSFERS = frozenset({"stablehlo.send", "stablehlo.recv"})
_REMEDY = (
    "partir takes whole programs: load the module as it was before it was partitioned, "
    "for example jax.jit(fn).lower(...).as_text(), and leave what is written per "
    "device inside jax.shard_map"
)


def refuse_exported(module: Any) -> None:
    """Raise if partir itself wrote this module for the devices of a mesh."""
    attributes = module.operation.attributes
    if EXPORTED in attributes:
        mesh = ir.StringAttr(attributes[EXPORTED]).value
        raise PartitionError(
            f"the module is what partir exported for each device of mesh {mesh}, not a "
            "whole program: partition the program that it was made from"
        )


def is_local(kind: str, attrs: dict[str, str], lambdas: Sequence[Lambda]) -> bool:
    """Whether an op outside a shard_map means something on one device of many only."""
    if kind in _TRANSFERS:
        return attrs.get("is_host_transfer") != "true"
    if kind in _LOCAL or not lambdas:
        return kind in _LOCAL
    return kind != MANUAL and any(
        is_local(op.kind, op.signature.attrs, op.signature.lambdas)
        for region in lambdas
        for op in region.ops
    )


def local_refusal(kind: str, location: Location) -> PartitionError:
    """What to say of such an op."""
    return PartitionError(
        f"the module is the program of one device already: it holds {kind} at "
        f"{location}, outside of any shard_map. {_REMEDY}"
    )
