"""Windows that are scattered to a known place, whole or in tiles."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import pytest
from jax import Array

import partir
from tests.verify.modules import Case, constant, function, is_proved
from tests.verify.test_right_and_wrong import shape

pytestmark = pytest.mark.quick


def fixed_borders(u: Array) -> Array:
    inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return u.at[1:-1, 1:-1].set(inner / 4)


def one_row(u: Array) -> Array:
    return u.at[5].set(jnp.sin(u[2]))


def some_rows(u: Array) -> Array:
    return u.at[1:4].set(jnp.cos(u[5:8]))


def tiled(fn: Callable[[Array], Array]) -> partir.Partitioned:
    tactic = partir.ManualPartition({"u": 0}, axis="B")
    return partir.partition(fn, {"B": 2}, [tactic], args=(shape(8, 6),))


@pytest.mark.parametrize("fn", [fixed_borders, one_row, some_rows])
def test_windows_are_written_into_tiles(fn: Callable[[Array], Array]) -> None:
    assert not tiled(fn).verify().not_proved


def test_windows_at_other_places_are_others() -> None:
    right = tiled(fixed_borders)

    def one_off(u: Array) -> Array:
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, :-2].set(inner / 4)

    def others(u: Array) -> Array:
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 1:-1]
        return u.at[1:-1, 1:-1].set(inner / 4)

    for wrong in (one_off, others):
        assert right.proof(tiled(wrong).stablehlo()).proved == ()
        assert tiled(wrong).proof(right.stablehlo()).proved == ()
    text = right.stablehlo()
    *before, last = text.split("#stablehlo<comparison_direction LT>")
    assert before
    other = "#stablehlo<comparison_direction LT>".join(before)
    other += f"#stablehlo<comparison_direction GE>{last}"
    assert right.proof(other).proved == ()


def scattered(start: int) -> str:
    """Two rows of eight, replaced from a row on."""
    return function(
        {"x": "8x3xf32", "y": "2x3xf32"},
        "8x3xf32",
        constant("at", start, "1xi32"),
        """%r = "stablehlo.scatter"(%x, %at, %y) ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      stablehlo.return %q : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 0>,
    indices_are_sorted = true, unique_indices = true} :
    (tensor<8x3xf32>, tensor<1xi32>, tensor<2x3xf32>) -> tensor<8x3xf32>""",
    )


def updated(start: int) -> str:
    types = "(tensor<8x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>)"
    return function(
        {"x": "8x3xf32", "y": "2x3xf32"},
        "8x3xf32",
        constant("at", start, "i32"),
        constant("zero", 0, "i32"),
        f"%r = stablehlo.dynamic_update_slice %x, %y, %at, %zero : {types} "
        "-> tensor<8x3xf32>",
    )


UNCHANGED = function(
    {"x": "8x3xf32", "y": "2x3xf32"},
    "8x3xf32",
    "%r = stablehlo.reshape %x : (tensor<8x3xf32>) -> tensor<8x3xf32>",
)


@pytest.mark.parametrize("start", [-1, 0, 5, 6, 7, 8])
def test_only_windows_inside_are_written(start: int) -> None:
    """Updates are moved inside, scattered windows are left out."""
    given = ((), ())
    inside = 0 <= start <= 6
    assert is_proved(Case(scattered(start), updated(start), given)) == inside
    assert is_proved(Case(updated(start), scattered(start), given)) == inside
    assert is_proved(Case(scattered(start), UNCHANGED, given)) != inside
    assert not is_proved(Case(scattered(start), updated(3), given))
