"""Indices of several columns into tiles, and indices that are known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.mesh import Mesh
from tests.verify.modules import Case, all_reduce, function, is_proved
from tests.verify.test_right_and_wrong import mistakes_missed, shape

pytestmark = pytest.mark.quick
INDEX = shape(3, dtype="int32")


def pairs(x: jax.Array, i: jax.Array, j: jax.Array) -> jax.Array:
    return jnp.sin(x[i, j])


def one_known(x: jax.Array, i: jax.Array) -> jax.Array:
    return x[i, jnp.array([1, 7, 2])]


def added(x: jax.Array, i: jax.Array, j: jax.Array, u: jax.Array) -> jax.Array:
    return x.at[i, j].add(u)


def replaced(x: jax.Array, u: jax.Array) -> jax.Array:
    return x.at[jnp.array([1, 5, 6])].set(u)


def added_to_one(x: jax.Array, u: jax.Array) -> jax.Array:
    """In one tile alone."""
    return x.at[jnp.array([4, 4, 5])].add(u)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, int]]] = {
    "the first column": (pairs, (shape(8, 2), INDEX, INDEX), {"x": 0}),
    "the second column": (pairs, (shape(2, 8), INDEX, INDEX), {"x": 1}),
    "a known column": (one_known, (shape(2, 8), INDEX), {"x": 1}),
    "scattered": (added, (shape(8, 2), INDEX, INDEX, shape(3)), {"x": 0}),
    "known rows": (replaced, (shape(8, 2), shape(3, 2)), {"x": 0}),
    "known rows of one tile": (added_to_one, (shape(8, 2), shape(3, 2)), {"x": 0}),
}


def partitioned(name: str) -> partir.Partitioned:
    fn, args, tiles = CASES[name]
    return partir.partition(
        fn, {"B": 4}, [partir.ManualPartition(tiles, "B")], args=args
    )


@pytest.mark.parametrize("name", CASES)
def test_columns_are_proved_and_no_mistake(name: str) -> None:
    p = partitioned(name)
    assert not p.verify().not_proved
    assert mistakes_missed(p) == []


@pytest.mark.parametrize("name", [name for name in CASES if "rows" not in name])
def test_columns_that_are_put_side_by_side_the_other_way_round(name: str) -> None:
    p = partitioned(name)
    text = p.stablehlo()
    *_, joined = re.finditer(r'"stablehlo.concatenate"\((%\w+), (%\w+)\)', text)
    swapped = f'"stablehlo.concatenate"({joined[2]}, {joined[1]})'
    wrong = text[: joined.start()] + swapped + text[joined.end() :]
    assert p.proof(text).proved
    assert not p.proof(wrong).proved


@pytest.mark.parametrize("name", ["known rows", "known rows of one tile"])
@pytest.mark.parametrize("more", [-2, -1, 1, 2, 100])
def test_known_rows_that_are_shifted_otherwise(name: str, more: int) -> None:
    """By one row too many or too few, or out of all tiles."""
    p = partitioned(name)
    text = p.stablehlo()
    *_, shift = re.finditer(r'(%\w+) = "stablehlo.subtract"\((%\w+), (%\w+)\)', text)
    (type_,) = re.findall(rf"{shift[2]} = .* -> (tensor<[^>]*>)", text)
    again = "\n".join(
        (
            f"%more = stablehlo.constant dense<{more}> : {type_}",
            f"%moved = stablehlo.add {shift[2]}, %more : {type_}",
            shift[0].replace(shift[2], "%moved"),
        )
    )
    wrong = text[: shift.start()] + again + text[shift.end() :]
    assert not p.proof(wrong).proved


LOOKED_UP = """%{0} = "stablehlo.gather"(%x, %{1}) <{{
    dimension_numbers = #stablehlo.gather<offset_dims = [],
      collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}}>
  : (tensor<3x{2}xf32>, tensor<2x2xi32>) -> tensor<2xf32>"""
COLUMN = "%i = stablehlo.constant dense<[[1], [5]]> : tensor<2x1xi32>"
BESIDE = (
    "%{0} = stablehlo.concatenate %j, %{1}, dim = 1 : "
    "(tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>"
)
SHIFTED = """%id = stablehlo.partition_id : tensor<ui32>
  %dev = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %b = stablehlo.divide %dev, %two : tensor<i32>
  %m = stablehlo.remainder %dev, %two : tensor<i32>
  %o = stablehlo.multiply %m, %four : tensor<i32>
  %ob = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<i32>) -> tensor<2x1xi32>
  %l = stablehlo.subtract %i, %ob : tensor<2x1xi32>
  %zb = stablehlo.constant dense<0.0> : tensor<2xf32>"""
IN_TILE = """%li = stablehlo.reshape %l : (tensor<2x1xi32>) -> tensor<2xi32>
  %0 = stablehlo.constant dense<0> : tensor<2xi32>
  %4 = stablehlo.constant dense<4> : tensor<2xi32>
  %ge = stablehlo.compare GE, %li, %0 : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  %lt = stablehlo.compare LT, %li, %4 : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  %c = stablehlo.and %ge, %lt : tensor<2xi1>
  %h = stablehlo.select %c, %a, %zb : tensor<2xi1>, tensor<2xf32>"""
BY_DEVICE = """%c = stablehlo.compare EQ, %b, %m
    : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %h = stablehlo.select %c, %a, %zb : tensor<i1>, tensor<2xf32>"""


@pytest.mark.parametrize(("mask", "proved"), [(IN_TILE, True), (BY_DEVICE, False)])
def test_one_mask_for_all_places_is_not_a_mask_of_places(
    mask: str, proved: bool
) -> None:
    """Of the known column, place and device number each other's truths."""
    arguments = {"x": "3x8xf32", "j": "2x1xi32"}
    looked_up = BESIDE.format("ji", "i"), LOOKED_UP.format("r", "ji", 8)
    source = function(arguments, "2xf32", COLUMN, *looked_up)
    summed = all_reduce("r", "h", "add", "2xf32").replace(
        "dense<[[0, 1]]> : tensor<1x2xi64>", "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"
    )
    looked_up = BESIDE.format("jl", "l"), LOOKED_UP.format("a", "jl", 4)
    arguments["x"] = "3x4xf32"
    local = function(arguments, "2xf32", COLUMN, SHIFTED, *looked_up, mask, summed)
    given = [((), ("M",)), ()]
    mesh = Mesh({"B": 2, "M": 2})
    assert is_proved(Case(source, local, given, (), mesh)) is proved
