"""What gather and scatter have in common: indices, and windows that they address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partir.ir.attributes import fields, i64_array, ints
from partir.ir.core import Signature
from partir.rules.nest import Nest

_PART = "partir.part"  # operand dimensions that the whole op's windows cover in part


@dataclass(frozen=True, slots=True)
class Lookup:
    """What gather and scatter have in common, whatever they call it.

    Index vectors stand along dimension `vector` of the indices; entry i addresses
    operand dimension `addressed[i]`. What is found there is a window, of size
    `sizes[d]` along operand dimension d. The *slices* are gather's result, scatter's
    updates: window dimensions and, between them, those of the indices.
    """

    operand: tuple[int, ...]
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    addressed: tuple[int, ...]
    vector: int
    positions: tuple[tuple[int, int, int | None], ...]
    """Dimensions of indices, slices and (in batches) operand that go together."""
    windows: tuple[tuple[int, int], ...]
    """Dimensions of operand and slices that a window runs along."""
    parts: tuple[int, ...] = ()
    """Of these, those that were covered in part before they were tiled."""

    def single(self) -> list[int]:
        """Operand dimensions of which one element is looked up.

        Where it is, an index says; in a dimension that none addresses, it is the first.
        """
        batch = [into for _, _, into in self.positions]
        return [
            dim
            for dim, size in enumerate(self.operand)
            if self.sizes[dim] == 1 < size and dim not in batch
        ]

    def whole(self) -> Iterator[tuple[int, int]]:
        """Dimensions (operand, slices) that a window covers from end to end."""
        for dim, offset in self.windows:
            if self.sizes[dim] == self.operand[dim] and dim not in self.parts:
                yield dim, offset

    def part(self) -> list[int]:
        """Addressed operand dimensions that a window covers in part, by several."""
        return [
            dim
            for dim, _ in self.windows
            if dim in self.parts
            or (dim in self.addressed and 1 < self.sizes[dim] < self.operand[dim])
        ]


def _read(
    op: Signature, attr: str, indices: int, slices: int, names: Sequence[str]
) -> Lookup:
    numbers = fields(op.attrs[attr])
    offsets, dropped, batch, batch_indices, addressed = (
        numbers.get(name, ()) for name in names
    )
    vector = numbers.get("index_vector_dim", (0,))[0]
    operand, index = op.operands[0].shape, op.operands[indices].shape
    shape = (*op.operands, *op.results)[slices].shape
    kept = [d for d in range(len(operand)) if d not in (*dropped, *batch)]
    windows = tuple(zip(kept, offsets, strict=True))
    sizes = [1] * len(operand)
    for dim, offset in windows:
        sizes[dim] = shape[offset]
    places = [d for d in range(len(shape)) if d not in offsets]
    looked_up = [d for d in range(len(index)) if d != vector]
    into = dict(zip(batch_indices, batch, strict=True))
    return Lookup(
        operand=operand,
        indices=index,
        sizes=tuple(sizes),
        addressed=addressed,
        vector=vector,
        positions=tuple(
            (dim, place, into.get(dim))
            for dim, place in zip(looked_up, places, strict=True)
        ),
        windows=windows,
        parts=marks(op),
    )


def gather_lookup(op: Signature) -> Lookup:
    """Of a gather."""
    names = (
        "offset_dims collapsed_slice_dims operand_batching_dims "
        "start_indices_batching_dims start_index_map"
    )
    return _read(op, "dimension_numbers", 1, 2, names.split())


def scatter_lookup(op: Signature) -> Lookup:
    """Of a scatter."""
    names = (
        "update_window_dims inserted_window_dims input_batching_dims "
        "scatter_indices_batching_dims scatter_dims_to_operand_dims"
    )
    count = len(op.results)
    attr = "scatter_dimension_numbers"
    return _read(op, attr, count, count + 1, names.split())


def marked(attrs: dict[str, str], dims: Sequence[int]) -> dict[str, str]:
    """Attributes that say which dimensions are covered in part.

    A window may be as large as a tile and yet lie elsewhere.
    """
    return {**attrs, _PART: i64_array(dims)} if dims else attrs


def marks(op: Signature) -> tuple[int, ...]:
    """The dimensions that `marked` marked."""
    return ints(op.attrs.get(_PART, ""))


def tiled_dims(nest: Nest, dims: Sequence[int]) -> list[int]:
    """Those of these dimensions of the first operand that the loops run along."""
    return [dim for dim in dims if nest.needs[0][dim]]
