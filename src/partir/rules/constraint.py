"""Sharding constraints of the model: a value, and the same value in a layout asked for.

A constraint is an op of its own, so that one value may be in two layouts one after the
other; what has to move between them shows as a collective. Otherwise it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partir.ir.attributes import (
    CONSTRAINT,
    MESH,
    listed,
    open_dims,
    shardings,
)
from partir.ir.core import Signature
from partir.mesh import Mesh
from partir.rules.elementwise import pointwise
from partir.rules.factor import Factor
from partir.rules.local import Emitter, Ssa
from partir.rules.nest import Nest
from partir.rules.registry import local_form, rule


@dataclass(frozen=True, slots=True)
class Layout:
    """What a constraint says, of the axes of the mesh that it was written for.

    `axes` are those of each dimension. An `open` dimension may have more; of `pending`
    axes, over which the value is still to be summed, nothing is said; `whole` are axes
    that may not tile it even where it is open.
    """

    mesh: Mesh
    axes: tuple[tuple[str, ...], ...]
    open: tuple[int, ...]
    pending: tuple[str, ...]
    whole: tuple[str, ...]

    def dim(self, axis: str) -> int | None:
        """The dimension that an axis is to tile."""
        return next((d for d, axes in enumerate(self.axes) if axis in axes), None)

    def closed(self, axis: str) -> frozenset[int]:
        """Dimensions that an axis may not tile."""
        if axis not in self.mesh or axis in self.pending:
            return frozenset()
        left = () if axis in self.whole else self.open
        dims = enumerate(self.axes)
        return frozenset(d for d, axes in dims if d not in left and axis not in axes)


def layout_of(op: Signature) -> Layout | None:
    """The layout that an op asks for, if it is a constraint."""
    if op.kind != CONSTRAINT:
        return None
    found: Layout | None = op.cache.get("layout")
    if found is None:
        text = op.attrs["sharding"]
        found = op.cache["layout"] = Layout(
            Mesh.parse(op.attrs[MESH]),
            shardings(text)[0],
            open_dims(text),
            listed("unreduced", text),
            listed("replicated", text),
        )
    return found


@rule(CONSTRAINT)
def constraint(op: Signature) -> Iterator[Factor]:
    """``(i, j) -> (i, j)``; the layouts on both sides of it may differ all the same."""
    yield from pointwise(op)


@local_form(CONSTRAINT)
def itself(nest: Nest, emitter: Emitter, operands: Sequence[Ssa]) -> tuple[Ssa, ...]:
    """Nothing to do: the operand."""
    return tuple(operands)
