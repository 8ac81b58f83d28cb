"""Weights of more than two dimensions that products read as matrices.

Back through a layer, a product sums over what the weight made: its last dimensions. XLA
on CPUs has kernels for that, but takes a weight of three dimensions or more for one
that is to be put in order, with what it sums over first. A matrix it reads as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from partir.ir.attributes import fields
from partir.ir.types import TensorType
from partir.rules.contraction import dim_pairs
from partir.rules.identities import UNMERGED, cites
from partir.rules.local import Emitter, Ssa
from partir.rules.masks import has_garbage
from partir.rules.nest import Nest

_PRODUCT, _NUMBERS, _PRECISION = (
    "stablehlo.dot_general",
    "dot_dimension_numbers",
    "precision_config",
)


class FlatProduct(NamedTuple):
    """The types of a product with a matrix, and the dimensions that it sums over."""

    left: TensorType
    right: TensorType
    made: TensorType
    numbers: str


def flat_product(nest: Nest) -> FlatProduct | None:
    """A product whose right operand could as well be a matrix, as one; None if not."""
    if "flat product" not in nest.cache:
        nest.cache["flat product"] = _flat_product(nest)
    known: FlatProduct | None = nest.cache["flat product"]
    return known


def _flat_product(nest: Nest) -> FlatProduct | None:
    signature = nest.signature
    if signature.kind != _PRODUCT or has_garbage(nest):
        return None
    numbers = fields(nest.attrs[_NUMBERS])
    summed = dim_pairs(numbers, "contracting")
    known = signature.attrs.keys() <= {_NUMBERS, _PRECISION}
    if not known or not summed or dim_pairs(numbers, "batching"):
        return None
    left, right = nest.operand_types
    first, free = summed[0][0], len(right.shape) - len(summed)
    in_order = [(first + n, free + n) for n in range(len(summed))]
    if summed != in_order or not free or len(right.shape) < 3:
        return None
    count = math.prod(right.shape[free:])
    shape = (*left.shape[:first], count, *left.shape[first + len(summed) :])
    rest = (*shape[:first], *shape[first + 1 :])
    width = math.prod(right.shape[:free])
    return FlatProduct(
        left.with_shape(shape),
        right.with_shape((width, count)),
        nest.result_types[0].with_shape((*rest, width)),
        f"#stablehlo.dot<lhs_contracting_dimensions = [{first}], "
        "rhs_contracting_dimensions = [1]>",
    )


@cites(UNMERGED)
def multiply_flat(
    emitter: Emitter, nest: Nest, operands: Sequence[Ssa], flat: FlatProduct
) -> tuple[Ssa, ...]:
    """The product with its right operand read as a matrix.

    The exported text has two or three reshapes more:
        %1 = dot_general %g %w over [1, 2] [1, 2]
        ->
        %2 = reshape %g ; %3 = reshape %w ; %1 = dot_general %2 %3 over [1] [1]
    """
    both = [
        _reshaped(emitter, operand, type_)
        for operand, type_ in zip(operands, (flat.left, flat.right), strict=True)
    ]
    attrs = {**nest.attrs, _NUMBERS: flat.numbers}
    (made,) = emitter.op(_PRODUCT, both, (flat.made,), attrs)
    return (_reshaped(emitter, made, nest.result_types[0]),)


def _reshaped(emitter: Emitter, value: Ssa, type_: TensorType) -> Ssa:
    if value.type == type_:
        return value
    return emitter.op("stablehlo.reshape", (value,), (type_,))[0]
