"""Index vectors that count along a batch: ``x[arange(n), i]`` looks up row by row.

`Counts` knows which values are 0, 1, 2, … along one dimension. Where a lookup's indices
have such a column, there is nothing to look up along it: the dimension becomes a
batching one, which the rules can tile together with its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from partir.ir.attributes import fields, integer, ints
from partir.ir.core import Signature
from partir.ir.types import dtype_bytes

# StableHLO's names in the two ops for: dimensions without a window, batching
# dimensions, those of the indices, and dimensions that an index vector addresses.
_NAMES = {
    "gather": (
        "dimension_numbers",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
    ),
    "scatter": (
        "scatter_dimension_numbers",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
    ),
}
_ORDER = ("offset_dims", "update_window_dims")


class BatchedLookup(NamedTuple):
    """A lookup with batching dimensions: attributes, and columns of indices left."""

    attrs: dict[str, str]
    position: int  # which operand the indices are
    columns: tuple[int, ...]  # values to join along `vector`
    vector: int


@dataclass
class Counts:
    """What is known of values made so far; `splats` is the builder's."""

    splats: dict[int, str]

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self._along: dict[int, int] = {}
        self._joined: dict[int, tuple[int, tuple[int, ...]]] = {}

    def note(self, op: Signature, operands: Sequence[int], value: int) -> None:
        """Remember what an op makes of what is known of its operands."""
        if op.name == "concatenate":
            self._joined[value] = integer(op.attrs["dimension"]), tuple(operands)
        elif op.name == "compare":
            self._note_compared(op, operands, value)
        else:
            dim = self._dim(op, operands)
            if dim is not None and _holds(op, dim):
                self._along[value] = dim

    def _dim(self, op: Signature, operands: Sequence[int]) -> int | None:
        """Dimension along which the op's result counts from zero."""
        if op.name == "iota":
            return integer(op.attrs["iota_dimension"])
        if op.name == "select":
            taken = {"true": 1, "false": 2}.get(self.splats.get(operands[0], ""))
            return None if taken is None else self._along.get(operands[taken])
        dim = self._along.get(operands[0]) if operands else None
        if dim is None or op.name == "convert":
            return dim
        before, after = op.operands[0].shape, op.results[0].shape
        if op.name == "broadcast_in_dim":
            made = ints(op.attrs["broadcast_dimensions"])[dim]
            return made if before[dim] == after[made] else None
        return _kept(before, after, dim) if op.name == "reshape" else None

    def _note_compared(
        self, op: Signature, operands: Sequence[int], value: int
    ) -> None:
        """No count is less than zero: jax counts negative indices from the end."""
        if operands[0] in self._along and self.splats.get(operands[1]) == "0":
            text = op.attrs["comparison_direction"]
            known = {"LT": "false", "GE": "true"}.get(text[-3:-1])
            if known:
                self.splats[value] = known

    def batched(self, op: Signature, operands: Sequence[int]) -> BatchedLookup | None:
        """A lookup's other form, if one of its columns counts along its batch."""
        position = 1 if op.name == "gather" else len(op.results)
        attr, dropped, *batching, addressed = _NAMES[op.name]
        numbers = fields(op.attrs[attr])
        vector = numbers.get("index_vector_dim", (0,))[0]
        along, columns = self._joined.get(operands[position], (-1, ()))
        if along != vector or len(columns) != len(numbers.get(addressed, ())):
            return None
        old = [numbers.get(name, ()) for name in batching]
        shapes = op.operands[0].shape, op.operands[position].shape
        places = dict(zip(numbers[addressed], columns, strict=True))
        new: dict[int, int] = {}
        for into in sorted(set(places) & set(numbers.get(dropped, ()))):
            dim = self._along.get(places[into], vector)
            taken = dim in (vector, *old[1], *new.values())
            if not taken and shapes[0][into] == shapes[1][dim]:
                new[into] = dim
        left = [column for into, column in places.items() if into not in new]
        if not new or not left:
            return None
        pairs = new | dict(zip(*old, strict=True))
        for name in (dropped, addressed):
            numbers[name] = tuple(d for d in numbers[name] if d not in new)
        numbers[batching[0]] = tuple(sorted(pairs))
        numbers[batching[1]] = tuple(pairs[d] for d in sorted(pairs))
        text = ", ".join(_written(numbers, (*_ORDER, *_NAMES[op.name][1:])))
        changed = {attr: f"#stablehlo.{op.name}<{text}>", "indices_are_sorted": "false"}
        return BatchedLookup({**op.attrs, **changed}, position, tuple(left), vector)


def _holds(op: Signature, dim: int) -> bool:
    """Whether the result's type holds all counts: whole numbers that don't wrap."""
    type_ = op.results[0]
    if not type_.dtype.startswith(("i", "ui")) or type_.dtype == "i1":
        return False
    bits = int(8 * dtype_bytes(type_.dtype)) - type_.dtype.startswith("i")
    return 1 < type_.shape[dim] <= 1 << bits


def _kept(before: Sequence[int], after: Sequence[int], dim: int) -> int | None:
    """Where a dimension is after a reshape that only adds or drops sizes of one."""
    old = [d for d, size in enumerate(before) if size > 1]
    new = [d for d, size in enumerate(after) if size > 1]
    if [before[d] for d in old] != [after[d] for d in new]:
        return None
    return new[old.index(dim)]


def _written(
    numbers: dict[str, tuple[int, ...]], names: Sequence[str]
) -> Iterator[str]:
    """Fields in StableHLO's order, empty ones left out."""
    for name in names:
        if numbers.get(name):
            yield f"{name} = [{', '.join(map(str, numbers[name]))}]"
    yield f"index_vector_dim = {numbers.get('index_vector_dim', (0,))[0]}"
