"""A shard_map inside the model: a local region over our axes, fixed by its author.

It has no factors to choose from. Its loops are given: one for each manual axis, along
the dimensions that its in_shardings and out_shardings name.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from partir.errors import PartitionError
from partir.ir.attributes import MESH, names, shardings
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import Emitter, Ssa
from partir.rules.nest import Loop, Nest
from partir.rules.registry import local_form, rule

KIND = "sdy.manual_computation"


@rule(KIND)
def manual(op: Signature) -> Sequence[Factor]:
    """No loop can be added to it."""
    return ()


def fixed_nest(op: Signature, axes: Mapping[str, int]) -> Nest:
    """The region in the loops that it was written for, on a mesh of these axes."""
    wanted = op.attrs[MESH]
    have = ",".join(f"{name}={size}" for name, size in axes.items())
    if wanted != have:
        raise PartitionError(
            f"the model holds a shard_map over mesh {wanted}, but is partitioned over "
            f"{have}: use a mesh with the same axes in the same order"
        )
    ins = shardings(op.attrs["in_shardings"])
    outs = shardings(op.attrs["out_shardings"])
    loops = []
    for axis in _in_order(names(op.attrs["manual_axes"]), [*ins, *outs]):
        operands = tuple(_dim(axis, dims) for dims in ins)
        results = tuple(_dim(axis, dims) for dims in outs)
        loops.append(Loop(axis, axes[axis], Factor(axes[axis], operands, results)))
    return Nest(op, tuple(loops))


def _in_order(
    axes: Sequence[str], shardings: Sequence[tuple[tuple[str, ...], ...]]
) -> tuple[str, ...]:
    """Axes, major first, as the dimensions that several of them tile have them."""
    before: dict[str, list[str]] = {axis: [] for axis in axes}
    for dim in (dim for dims in shardings for dim in dims):
        tiling = [axis for axis in dim if axis in before]
        for outer, inner in itertools.pairwise(tiling):
            before[inner].append(outer)
    try:
        return tuple(TopologicalSorter(before).static_order())
    except CycleError as error:
        shown = " and ".join(sorted(set(error.args[1])))
        raise PartitionError(
            f"a shard_map of the model has axes {shown} of one dimension in one order "
            "here and in another there: use the same order in all its in_specs and "
            "out_specs"
        ) from None


def _dim(axis: str, dims: tuple[tuple[str, ...], ...]) -> int | None:
    return next((dim for dim, axes in enumerate(dims) if axis in axes), None)


@local_form(KIND)
def manual_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """The region's ops as they are: they are local already."""
    (region,) = nest.signature.lambdas
    made = dict(zip(region.arguments, operands, strict=True))
    for op in region.ops:
        signature = op.signature
        results = emitter.op(
            signature.kind,
            [made[v] for v in op.operands],
            signature.results,
            signature.attrs,
            signature.lambdas,
        )
        made.update(zip(op.results, results, strict=True))
    return tuple(made[v] for v in region.results)
