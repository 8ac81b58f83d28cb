"""Decisions that the model brings along: sharding annotations and shard_maps."""

from __future__ import annotations

from partir.partition.actions import Partition
from partir.partition.state import Origin
from partir.rules.fixed_loops import fixed_loops_nest, has_fixed_loops


class ModelDecisions:
    """The tactic that takes them; runs before the schedule's own if there are any."""

    name = "the model's own"

    def apply(self, partition: Partition) -> None:
        """Fix what has its loops, then tile what is annotated with axes of the mesh."""
        state = partition.state
        for node, signature in enumerate(state.graph.signatures):
            if has_fixed_loops(signature):
                nest = fixed_loops_nest(signature, partition.mesh.axes)
                state.fix(node, nest, Origin(state.step, None, state.epoch))
        for annotation in partition.program.annotations:
            for dim, axes in enumerate(annotation.axes):
                for axis in axes:
                    if axis in partition.mesh:
                        state.set_home(annotation.value, dim, axis, None)


def has_decisions(partition: Partition) -> bool:
    """Whether the model says anything about its layout on this mesh."""
    return any(map(has_fixed_loops, partition.state.graph.signatures)) or any(
        axis in partition.mesh
        for annotation in partition.program.annotations
        for axes in annotation.axes
        for axis in axes
    )
