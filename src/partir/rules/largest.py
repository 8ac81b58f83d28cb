"""top_k: the largest of all are among the largest of each tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partir.ir.attributes import i64_array, integer, ints
from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.rules.factor import JOIN, Factor
from partir.rules.identities import LARGEST, cites
from partir.rules.joins import (
    Join,
    Splats,
    Types,
    is_short,
    iterations,
    joined_by,
    lengths,
)
from partir.rules.local import (
    Emitter,
    Ssa,
    binary,
    constant,
    converted,
    selected,
    spread,
    tile_offset,
)
from partir.rules.masks import existing_rows
from partir.rules.monoids import identity
from partir.rules.nest import Nest
from partir.rules.reduction import all_but
from partir.rules.registry import local_form, rule
from partir.rules.slices import concatenated, cut

TOP_K = "chlo.top_k"
LARGEST_OF = "partir.largest_of_largest"
_LENGTHS = "partir.lengths"
_SIGNED_NAN = {"f64": 16, "f32": 8, "f16": 4, "bf16": 4}  # hexadecimal digits


@rule(TOP_K)
def top_k(op: Signature) -> Iterator[Factor]:
    """``(i, k) -> (i, _), (i, _) join=k``: partial results are the tile's largest."""
    (type_,) = op.operands
    last = len(type_.shape) - 1
    yield from all_but(op, last)
    if _count(op):
        loose = "f" not in type_.dtype or type_.dtype in _SIGNED_NAN
        yield Factor(type_.shape[last], (last,), (None, None), JOIN, loose=loose)


def _count(op: Signature) -> int:
    return integer(op.attrs["k"])


class _Largest(Join):
    """The largest of each tile with their places in the whole, largest first.

    Of equals those at the lower place come first: so they do within a tile, and tiles
    follow each other.
    """

    def dim(self, nest: Nest) -> int:
        return len(nest.signature.operands[0].shape) - 1

    def rows(self, nest: Nest) -> tuple[int, int]:
        rows = min(_count(nest.signature), nest.operand_types[0].shape[-1])
        return rows, rows * iterations(nest)

    @cites(LARGEST)
    def partial(
        self, nest: Nest, emitter: Emitter, operands: Sequence[Ssa], splats: Splats
    ) -> tuple[Ssa, ...]:
        (value,) = operands
        inside = existing_rows(nest, emitter, value)
        if inside is not None:
            least = constant(emitter, value.type, _least(value.type))
            value = selected(emitter, inside, value, least)
        rows = self.rows(nest)[0]
        types = self.types(nest, nest.result_types, rows)
        attrs = {**nest.signature.attrs, "k": f"{rows} : i64"}
        made, places = emitter.op(TOP_K, (value,), types, attrs)
        offset = tile_offset(nest, emitter, 0, self.dim(nest))
        assert offset is not None
        offset = converted(emitter, offset, places.type.dtype)
        offset = spread(emitter, offset, places.type)
        return made, binary(emitter, "add", places, offset)

    def whole(self, nest: Nest, laid: Types, results: Types) -> Signature:
        attrs = dict(nest.signature.attrs)
        rows, _ = self.rows(nest)
        there = (
            [min(rows, length) for length in lengths(nest)] if is_short(nest) else []
        )
        if any(length < rows for length in there):
            attrs[_LENGTHS] = i64_array(there)
        return Signature.of(LARGEST_OF, attrs, laid, results)


joined_by(TOP_K, _Largest())


def _least(type_: TensorType) -> str:
    """What stands behind everything in the order of top_k."""
    digits = _SIGNED_NAN.get(type_.dtype)
    return f"0x{'F' * digits}" if digits else identity("max", type_)


@local_form(LARGEST_OF)
def largest_of_largest(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """The largest of partial results, and the places that belong to them."""
    attrs = dict(nest.signature.attrs)
    there = ints(attrs.pop(_LENGTHS, ""))
    values, places = (_existing(emitter, value, there) for value in operands)
    made, found = emitter.op(TOP_K, (values,), nest.result_types, attrs)
    return made, _looked_up(emitter, places, found)


def _existing(emitter: Emitter, value: Ssa, there: Sequence[int]) -> Ssa:
    """Rows along the last dimension that are elements, if some are not."""
    if not there:
        return value
    dim = len(value.type.shape) - 1
    rows = value.type.shape[dim] // len(there)
    parts = [
        cut(emitter, value, dim, number * rows, length)
        for number, length in enumerate(there)
        if length
    ]
    return concatenated(emitter, parts, dim)


def _looked_up(emitter: Emitter, value: Ssa, places: Ssa) -> Ssa:
    """Elements of the last dimension at these places."""
    rank = len(value.type.shape)
    batch = list(range(rank - 1))
    dims = (
        f"#stablehlo.gather<collapsed_slice_dims = [{rank - 1}], "
        f"operand_batching_dims = {batch}, start_indices_batching_dims = {batch}, "
        f"start_index_map = [{rank - 1}], index_vector_dim = {rank}>"
    )
    attrs = {
        "dimension_numbers": dims,
        "slice_sizes": i64_array([1] * rank),
        "indices_are_sorted": "false",
    }
    type_ = value.type.with_shape(places.type.shape)
    return emitter.op("stablehlo.gather", (value, places), (type_,), attrs)[0]
