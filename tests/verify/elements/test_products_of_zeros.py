"""Element by element: reductions by products that have zeros and ones among them."""

from __future__ import annotations

import pytest

from tests.verify.elements.test_written_out import ROWS, is_equal
from tests.verify.modules import TWO, Case, all_reduce, constant, device, function


def multiplied(name: str, operand: str, rows: int, start: str) -> list[str]:
    return [
        constant(f"{name}0", start, "f32"),
        f"%{name} = stablehlo.reduce(%{operand} init: %{name}0) applies"
        f" stablehlo.multiply across dimensions = [0] :"
        f" (tensor<{rows}xf32>, tensor<f32>) -> tensor<f32>",
    ]


def product(factors: list[float], local: list[float], start: str = "3.0") -> Case:
    """Of `x`, and what is multiplied with; the first device has the start."""
    source = [
        constant("k", factors, "4xf32"),
        "%y = stablehlo.multiply %x, %k : tensor<4xf32>",
        *multiplied("r", "y", 4, start),
    ]
    own = [
        constant("k", local, "4xf32"),
        device("i", 2),
        "%w = stablehlo.dynamic_slice %k, %i, sizes = [2] :"
        " (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>",
        "%y = stablehlo.multiply %x, %w : tensor<2xf32>",
        *multiplied("m", "y", 2, "1.0"),
        all_reduce("n", "m", "multiply", "f32"),
        constant("s", start, "f32"),
        "%r = stablehlo.multiply %n, %s : tensor<f32>",
    ]
    given = {"x": "4xf32"}, {"x": "2xf32"}
    return Case(
        function(given[0], "f32", *source),
        function(given[1], "f32", *own),
        [ROWS],
        mesh=TWO,
    )


@pytest.mark.parametrize("start", ["0.0", "3.0", "0x7F800000"])
@pytest.mark.parametrize(
    "factors",
    [
        [0.0, 2.0, 5.0, 1.0],
        [0.0, 2.0, 0.0, 3.0],
        [0.0, 0.0, 0.0, 0.0],
        [2.0, -3.0, 5.0, 1.0],
        [-0.0, 2.0, 1.0, -3.0],
    ],
)
def test_products_of_tiles(factors: list[float], start: str) -> None:
    assert is_equal(product(factors, factors, start))


@pytest.mark.parametrize(
    ("factors", "others"),
    [
        ([0.0, 2.0, 5.0, 1.0], [3.0, 2.0, 5.0, 1.0]),
        ([0.0, 2.0, 5.0, 1.0], [0.0, -2.0, 5.0, 1.0]),
        ([0.0, 2.0, 5.0, 1.0], [-0.0, 2.0, 5.0, 1.0]),
        ([2.0, 2.0, 5.0, 1.0], [2.0, 2.0, 1.0, 1.0]),
    ],
)
def test_products_of_other_numbers(factors: list[float], others: list[float]) -> None:
    """A zero has a sign, which is that of all factors together."""
    assert not is_equal(product(factors, others))
