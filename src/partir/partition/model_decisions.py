"""Decisions that the model brings along: sharding constraints and shard_maps."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.attributes import CONSTRAINT
from partir.ir.core import Signature
from partir.partition.actions import Partition
from partir.partition.requirements import MODELS_OWN
from partir.partition.state import Origin, State
from partir.rules.constraint import Layout, layout_of
from partir.rules.fixed_loops import FIXED, fixed_loops_nest, has_fixed_loops

DECIDING = frozenset({*FIXED, CONSTRAINT})


class ModelDecisions:
    """The tactic that takes them; runs before the schedule's own if there are any."""

    name = MODELS_OWN

    def apply(self, partition: Partition) -> None:
        """Fix what has its loops, then lay values out as constraints say."""
        state = partition.state
        for node, signature in _deciding(state):
            if has_fixed_loops(signature):
                nest = fixed_loops_nest(signature, partition.mesh.axes)
                state.fix(node, nest, Origin(state.step, None, state.epoch))
        for value, layout in _constraints(state):
            for axis in partition.mesh:
                if not _decide(state, value, layout, axis):
                    _record_skip(partition, value, layout, axis)
            _note_order(partition, value, layout)


def _deciding(state: State) -> list[tuple[int, Signature]]:
    """Ops that bring decisions along, and their numbers."""
    numbered = enumerate(state.graph.signatures)
    return [(node, op) for node, op in numbered if op.kind in DECIDING]


def _constraints(state: State) -> Iterator[tuple[int, Layout]]:
    """Values that the model lays out, and how."""
    for node, signature in _deciding(state):
        layout = layout_of(signature)
        if layout is not None:
            yield state.graph.results[node][0], layout


def _decide(state: State, value: int, layout: Layout, axis: str) -> bool:
    """What a constraint means for one axis of the mesh; False if that can't be."""
    asked = layout.dim(axis)
    if asked is not None:
        return state.set_home(value, asked, axis, None)
    if closed := layout.closed(axis):
        _close(state, value, axis, closed)
    return True


def _record_skip(partition: Partition, value: int, layout: Layout, axis: str) -> None:
    dims = tuple(range(len(layout.axes)))
    view = partition.view(partition.names.name(value), value, dims)
    dim = layout.dim(axis)
    assert dim is not None
    partition.skip(
        view,
        axis,
        f"dimension {dim} of {view.type_text} does not divide over an axis of size "
        f"{partition.mesh[axis]} ({view.source})",
    )


def _note_order(partition: Partition, value: int, layout: Layout) -> None:
    """Say so where the axes of a dimension are asked for in another order."""
    for axes, have in zip(layout.axes, partition.state.tilings[value], strict=True):
        asked = [axis for axis in axes if axis in have]
        laid_out = [axis for axis in have if axis in asked]
        if asked != laid_out:
            view = partition.view(partition.names.name(value), value, ())
            partition.note(
                f"a sharding constraint at {view.source} has axes {', '.join(asked)} "
                f"in this order; its tiles are laid out over {', '.join(laid_out)}, "
                "the mesh's"
            )


def _close(state: State, value: int, axis: str, dims: frozenset[int]) -> None:
    """Of a value, and with it of what a loop carries or a branch returns as it."""
    graph, waiting = state.graph, [value]
    while waiting:
        value = waiting.pop()
        if state.close(value, axis, dims):
            for node in graph.neighbours[value]:
                if graph.op(node) is None and graph.tie(node).owner is not None:
                    waiting += graph.operands[node] + graph.results[node]


def has_decisions(partition: Partition) -> bool:
    """Whether the model says anything about its layout on this mesh."""
    state = partition.state
    return any(has_fixed_loops(op) for _, op in _deciding(state)) or any(
        axis in layout.mesh for _, layout in _constraints(state) for axis in state.mesh
    )
