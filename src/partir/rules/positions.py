"""Indices computed at run time, counted from the start of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partir.ir.types import tensor
from partir.rules.local import (
    INDEX,
    Emitter,
    Ssa,
    binary,
    compared,
    constant,
    converted,
    place_type,
    selected,
    sliced,
    spread,
    tile_index,
    tile_offset,
)
from partir.rules.monoids import nothing
from partir.rules.nest import Nest

_NARROW = ("i4", "i8", "i16", "i32", "ui4", "ui8", "ui16")


def signed(emitter: Emitter, indices: Ssa, sizes: Sequence[int]) -> Ssa:
    """Indices into dimensions of these sizes, in a signed type that holds all places.

    It also holds what a tile's offset or a margin adds or takes away.
    """
    wide = place_type(max(sizes, default=0)).dtype
    dtype = indices.type.dtype
    if dtype == "ui64":  # all of its upper half is out of range anyway
        limit = constant(emitter, indices.type, str(2**62))
        indices = binary(emitter, "minimum", indices, limit)
    return converted(emitter, indices, wide if dtype in _NARROW else "i64")


def clamped(emitter: Emitter, indices: Ssa, size: int) -> Ssa:
    """The nearest index within a dimension of this size."""
    scalar = tensor((), indices.type.dtype)
    low, high = (constant(emitter, scalar, str(n)) for n in (0, size - 1))
    (made,) = emitter.op("stablehlo.clamp", (low, indices, high), (indices.type,))
    return made


def shifted(nest: Nest, emitter: Emitter, indices: Ssa, dim: int) -> Ssa:
    """Indices into dimension `dim` of the first operand, counted from the tile's start.

    The dimension is tiled.
    """
    offset = tile_offset(nest, emitter, 0, dim)
    assert offset is not None
    offset = converted(emitter, offset, indices.type.dtype)
    return binary(emitter, "subtract", indices, spread(emitter, offset, indices.type))


def located(nest: Nest, emitter: Emitter, indices: Ssa, dim: int) -> tuple[Ssa, Ssa]:
    """Indices into a tiled dimension of the first operand, counted in the tile.

    Out of range, they count as the nearest in range of the whole. With them, which
    of them lie in this tile; the others are brought into it, though ops do so too:
    XLA joins a slice to the one that makes the tile, and forgets about it there.
    """
    whole = nest.signature.operands[0].shape[dim]
    size = nest.operand_types[0].shape[dim]
    found = shifted(nest, emitter, clamped(emitter, indices, whole), dim)
    inside = clamped(emitter, found, size)
    return inside, compared(emitter, found, "EQ", inside)


def is_tile(nest: Nest, emitter: Emitter, dim: int, number: int) -> Ssa:
    """Whether this iteration has that tile of dimension `dim` of the first operand."""
    own = tile_index(nest, emitter, 0, dim)
    assert own is not None
    return compared(emitter, own, "EQ", constant(emitter, INDEX, str(number)))


def all_of(emitter: Emitter, masks: Sequence[Ssa]) -> Ssa:
    """Where all masks hold."""
    first, *rest = masks
    for mask in rest:
        first = binary(emitter, "and", first, mask)
    return first


def zero_outside_tile(emitter: Emitter, value: Ssa, mask: Ssa) -> Ssa:
    """`value` where the mask holds; nothing where another tile has the element."""
    other = constant(emitter, value.type, nothing(value.type))
    return selected(emitter, mask, value, other)


@dataclass
class Columns:
    """Index vectors taken apart: one column per entry, along dimension `vector`."""

    emitter: Emitter
    items: list[Ssa]
    vector: int

    @classmethod
    def of(cls, emitter: Emitter, indices: Ssa, vector: int) -> Columns:
        """Take apart; vectors of one entry stay as they are."""
        shape = indices.type.shape
        count = shape[vector] if vector < len(shape) else 1
        if count == 1:
            return cls(emitter, [indices], vector)
        sizes = [1 if dim == vector else n for dim, n in enumerate(shape)]
        items = []
        for place in range(count):
            starts = [place if dim == vector else 0 for dim in range(len(shape))]
            items.append(sliced(emitter, indices, starts, sizes))
        return cls(emitter, items, vector)

    def joined(self) -> Ssa:
        """Put together again."""
        if len(self.items) == 1:
            return self.items[0]
        shape = list(self.items[0].type.shape)
        shape[self.vector] = len(self.items)
        type_ = self.items[0].type.with_shape(tuple(shape))
        attrs = {"dimension": f"{self.vector} : i64"}
        return self.emitter.op("stablehlo.concatenate", self.items, (type_,), attrs)[0]

    def without_vector(self, value: Ssa) -> Ssa:
        """A value of a column's shape without the dimension of the vectors."""
        shape = value.type.shape
        if self.vector >= len(shape):
            return value
        rest = (*shape[: self.vector], *shape[self.vector + 1 :])
        type_ = value.type.with_shape(rest)
        return self.emitter.op("stablehlo.reshape", (value,), (type_,))[0]
