"""Products over rows: made the way round in which they are read, and by halves.

A weight's gradient is the product of what went in with what comes back, summed over all
rows, and jax makes it transposed. XLA on CPUs turns such a product round after it has
put its left operand in order, which then is the right one; and where both operands are
matrices it puts neither in order. Either way its quick kernels don't take the product:
they want the left operand with the dimension that is summed over last.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.attributes import fields, ints
from partir.ir.core import Signature
from partir.rules.contraction import dim_pairs
from partir.rules.identities import TURNED, UNMERGED, cites
from partir.rules.masks import has_garbage
from partir.rules.nest import Nest, nest_of
from partir.spmd.program import Compute, SpmdOp
from partir.spmd.rewrites.sweep import Sweep

_PRODUCT, _NUMBERS, _PRECISION = (
    "stablehlo.dot_general",
    "dot_dimension_numbers",
    "precision_config",
)
_HALVES = (
    "#stablehlo.dot<lhs_contracting_dimensions = [0, 1], "
    "rhs_contracting_dimensions = [0, 1]>"
)


@cites(TURNED)
def turn_products(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Make a product over rows the way round in which it is read.

    rewrite:
        %1 = dot_general %g %x over [0] [0] ; %2 = transpose [1, 0] %1
        ->
        %2 = dot_general %x %g over [0] [0]
    """
    products = sweep.block.computing(rows_summed)
    readers = sweep.block.computing(_transposes) if products else {}
    places = {op.results[0]: place for place, op in products.items()}
    made: dict[int, Compute | None] = {}
    for place, op in readers.items():
        before = places.get(op.operands[0])
        if before is None or sweep.reads[op.operands[0]] != 1:
            continue
        product = products[before]
        if _turns(product.nest, op.nest):
            nest, operands = _turned(product.nest, op.nest), product.operands[::-1]
            made[before] = Compute(product.node, nest, operands, op.results)
            made[place] = None
    if not made:
        return ops
    found = [made.get(place, op) for place, op in enumerate(ops)]
    return [op for op in found if op is not None]


def rows_summed(nest: Nest) -> int:
    """How many dimensions a product sums over if they come first in both; else 0."""
    known: int | None = nest.cache.get("rows summed")
    if known is None:
        known = nest.cache["rows summed"] = _rows_summed(nest)
    return known


def _rows_summed(nest: Nest) -> int:
    signature = nest.signature
    if signature.kind != _PRODUCT or has_garbage(nest):
        return 0
    if not signature.attrs.keys() <= {_NUMBERS, _PRECISION}:
        return 0
    numbers = fields(nest.attrs[_NUMBERS])
    contracted = dim_pairs(numbers, "contracting")
    first = contracted == [(dim, dim) for dim in range(len(contracted))]
    return len(contracted) if first and not dim_pairs(numbers, "batching") else 0


def _transposes(nest: Nest) -> bool:
    return nest.signature.kind == "stablehlo.transpose"


def _turns(product: Nest, reader: Nest) -> bool:
    """Whether the reader puts the right operand's dimensions before the left's."""
    rank = len(product.result_types[0].shape)
    left = len(product.operand_types[0].shape) - rows_summed(product)
    order = (*range(left, rank), *range(left))
    return ints(reader.attrs["permutation"]) == order


def _turned(product: Nest, reader: Nest) -> Nest:
    """The product of the two the other way round, at its local types."""
    attrs = dict(product.attrs)
    if _PRECISION in attrs:
        both = attrs[_PRECISION].strip("[]").split(", ")
        attrs[_PRECISION] = f"[{', '.join(reversed(both))}]"
    operands = product.operand_types[::-1]
    return nest_of(Signature.of(_PRODUCT, attrs, operands, reader.result_types))


@cites(UNMERGED)
def halve_rows(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Sum a product of matrices over two halves of its rows: both count, as one did.

    rewrite:
        %1 = dot_general %x %g over [0] [0]
        ->
        %2 = reshape %x ; %3 = reshape %g ; %1 = dot_general %2 %3 over [0, 1] [0, 1]
    """
    products = sweep.block.computing(is_halved)
    if not products:
        return ops
    made: list[SpmdOp] = []
    halves: dict[int, int] = {}
    for place, one in enumerate(ops):
        op = products.get(place)
        if op is None:
            made.append(one)
            continue
        for value in op.operands:
            if value not in halves:
                made.append(_reshaped(sweep, op.node, value))
                halves[value] = made[-1].results[0]
        operands = tuple(halves[value] for value in op.operands)
        types = tuple(sweep.types[value] for value in operands)
        attrs = {**op.nest.attrs, _NUMBERS: _HALVES}
        signature = Signature.of(_PRODUCT, attrs, types, op.nest.result_types)
        made.append(op._replace(nest=nest_of(signature), operands=operands))
    return made


def puts_in_order(nest: Nest) -> bool:
    """Whether XLA on CPUs puts a product's left operand in order, by halves or not."""
    return rows_summed(nest) > 1 or is_halved(nest)


def is_halved(nest: Nest) -> bool:
    """Whether a product of two matrices sums an even number of rows, of floats."""
    if rows_summed(nest) != 1:
        return False
    left, right = nest.operand_types
    dtypes = {left.dtype, right.dtype, nest.result_types[0].dtype}
    matrices = len(left.shape) == len(right.shape) == 2
    return matrices and dtypes == {"f32"} and left.shape[0] % 2 == 0


def _reshaped(sweep: Sweep, node: int, value: int) -> Compute:
    """A matrix as two halves of its rows."""
    before = sweep.types[value]
    rows, width = before.shape
    after = before.with_shape((2, rows // 2, width))
    signature = Signature.of("stablehlo.reshape", {}, (before,), (after,))
    return Compute(node, nest_of(signature), (value,), (sweep.new(after),))
