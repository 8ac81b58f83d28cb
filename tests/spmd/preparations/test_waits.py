"""Orders of products and sums take time and memory as a program has ops."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

from partir.ir.core import Program, Region, Signature
from partir.ir.types import tensor
from partir.mesh import Mesh
from partir.rules.nest import Nest, nest_of
from partir.spmd.preparations.product_order import product_order
from partir.spmd.preparations.sum_order import sum_order
from partir.spmd.preparations.waits import first_reached
from partir.spmd.program import Block, Compute, SpmdOp, SpmdProgram
from tests.programs import program_of

WEIGHT, ROWS, NUMBER = tensor((4, 4), "f32"), tensor((64, 4), "f32"), tensor((), "f32")
DOT = (
    "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
)
PRODUCT = nest_of(
    Signature.of(
        "stablehlo.dot_general",
        {"dot_dimension_numbers": DOT},
        (ROWS, WEIGHT),
        (ROWS,),
    )
)
ADDS = next(
    op.signature
    for op in program_of(jnp.sum, jnp.zeros(ROWS.shape, "float32")).ops
    if op.kind == "stablehlo.reduce"
)
SUM = nest_of(ADDS)


def chain(layers: int) -> SpmdProgram:
    """Each layer is a product with one weight, and a sum of it that nobody reads."""
    types, ops = [ROWS, WEIGHT, NUMBER], list[SpmdOp]()
    value = 0
    for node in range(layers):
        types += [ROWS, NUMBER]
        product, total = len(types) - 2, len(types) - 1
        ops.append(Compute(node, PRODUCT, (value, 1), (product,)))
        ops.append(Compute(node, SUM, (product, 2), (total,)))
        value = product
    return SpmdProgram(
        program=Program("chain", (), (), Region((), (), ()), (), ()),
        mesh=Mesh({"B": 2}),
        types=tuple(types),
        body=Block((0, 1, 2), tuple(ops), (value,)),
        splats={},
        in_tilings=(),
        out_tilings=(),
    )


def memory(order: Callable[[SpmdProgram], Any], layers: int) -> int:
    """Bytes at most while an order is found."""
    program = chain(layers)
    tracemalloc.start()
    order(program)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("order", [product_order, sum_order])
def test_twice_as_many_layers_take_twice_the_memory(
    order: Callable[[SpmdProgram], Any],
) -> None:
    order(chain(2))  # what is kept of nests
    assert memory(order, 3000) < 2.4 * memory(order, 1500)


def test_a_value_reaches_the_first_that_needs_it() -> None:
    ops = chain(3).body.ops
    reads = [op.operands for op in ops]
    found = first_reached(ops, reads, {2, 4})
    assert found == {0: 2, 1: 2, 3: 2, 5: 4}


def test_ops_are_asked_for_what_they_share() -> None:
    asked = []

    def is_product(nest: Nest) -> bool:
        asked.append(nest)
        return nest is PRODUCT

    found = chain(8).body.computing(is_product)
    assert list(found) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert {op.nest for op in found.values()} == {PRODUCT}
    assert sorted(map(id, asked)) == sorted([id(PRODUCT), id(SUM)])
