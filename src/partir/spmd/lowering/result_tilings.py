"""How results arrive: as the arguments that they succeed, or as at home."""

from __future__ import annotations

from partir.mesh import Mesh
from partir.partition.state import State
from partir.rules.nest import Tiling


def result_tilings(state: State) -> list[Tiling]:
    """A result that succeeds an argument is tiled as that is; others as at home.

    Arrays have equal tiles: axes that leave a short one are gathered, but where callers
    take it padded.
    """
    program = state.graph.program
    succeeds = {
        tie.sources[0]: tie.targets[0] for tie in program.ties if tie.owner is None
    }
    values = [succeeds.get(port.value, port.value) for port in program.results]
    return [
        state.tilings[value] if value in state.padded else _equal_tiles(state, value)
        for value in values
    ]


def _equal_tiles(state: State, value: int) -> Tiling:
    sizes = state.graph.program.types[value].shape
    dims = zip(sizes, state.tilings[value], strict=True)
    return tuple(_equal(size, axes, state.mesh) for size, axes in dims)


def _equal(size: int, axes: tuple[str, ...], mesh: Mesh) -> tuple[str, ...]:
    """The axes, major first, that cut a dimension into equal tiles."""
    for count, axis in enumerate(axes):
        if size % mesh.axes[axis]:
            return axes[:count]
        size //= mesh.axes[axis]
    return axes
