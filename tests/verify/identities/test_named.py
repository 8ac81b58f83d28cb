"""Slices and sorts of rows that a table describes: microbatches of a pipeline."""

from __future__ import annotations

import pytest

from partir.mesh import Mesh
from tests.verify.modules import (
    TWO,
    Case,
    constant,
    function,
    is_proved,
    permute,
    unary,
)

pytestmark = pytest.mark.quick

FOUR = Mesh({"A": 2, "B": 2})
SWAPPED = [[0, 1], [1, 0]]


def microbatches(rows: int, order: str = "1, 0", pad: str = "1.0", low: int = 1) -> str:
    """`%p`: every fourth row of `%y` together, and one row of a number before these."""
    each = rows // 4
    first, then = (f"{each}x4xf64", f"4x{each}xf64")
    if order == "0, 1":
        then = first
    shape = then.removesuffix("xf64").split("x")
    padded = f"{int(shape[0]) + 1}x{shape[1]}xf64"
    return "\n  ".join(
        (
            unary("a", "reshape", "y", f"{rows}xf64", first),
            unary("b", f"transpose|, dims = [{order}]", "a", first, then),
            constant("z", pad, "f64"),
            f"%p = stablehlo.pad %b, %z, low = [{low}, 0], high = [{1 - low}, 0],"
            f" interior = [0, 0] : (tensor<{then}>, tensor<f64>) -> tensor<{padded}>",
        )
    )


def sliced(each: int, start: str = "i", rows: int = 5) -> str:
    types = f"(tensor<{rows}x{each}xf64>, tensor<i32>, tensor<i32>)"
    return (
        f"%r = stablehlo.dynamic_slice %p, %{start}, %n0, sizes = [1, {each}]"
        f" : {types} -> tensor<1x{each}xf64>"
    )


def same(type_: str) -> str:
    return f"%y = stablehlo.optimization_barrier %x : tensor<{type_}>"


def taken(
    *,
    order: str = "1, 0",
    pad: str = "1.0",
    low: int = 1,
    start: str = "i",
    before: str = same("16xf64"),
) -> Case:
    """One of five rows, at a computed place; devices have half of each."""
    numbers = [constant("n0", 0, "i32"), constant("n1", 1, "i32")]
    given = {"x": "32xf64", "i": "i32"}
    made = [same("32xf64"), microbatches(32), *numbers, sliced(8)]
    source = function(given, "1x8xf64", *made)
    local = function(
        {**given, "x": "16xf64"},
        "1x4xf64",
        before,
        microbatches(16, order, pad, low),
        *numbers,
        "%j = stablehlo.add %i, %n1 : tensor<i32>",
        sliced(4, start),
    )
    return Case(source, local, [(("B",),), ()], ((), ("B",)))


def test_a_microbatch_of_padded_rows() -> None:
    assert is_proved(taken())


WRONG = {
    "rows of others": taken(order="0, 1"),
    "another number before": taken(pad="0.0"),
    "a number behind": taken(low=0),
    "another start": taken(start="j"),
    "the first start": taken(start="n0"),
    "another device's": taken(before=permute("y", "x", SWAPPED, "16xf64")),
    "the first device's": taken(before=permute("y", "x", [[0, 0]], "16xf64")),
    "not placed so": taken()._replace(made=()),
    "over two axes": taken()._replace(mesh=FOUR, made=((), ("A",))),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_microbatches(name: str) -> None:
    assert not is_proved(WRONG[name])


def in_quarters(made: tuple[str, ...]) -> Case:
    """The same over two axes."""
    source = taken().source
    numbers = [constant("n0", 0, "i32")]
    body = [same("8xf64"), microbatches(8), *numbers, sliced(2)]
    local = function({"x": "8xf64", "i": "i32"}, "1x2xf64", *body)
    return Case(source, local, [(("A", "B"),), ()], ((), made), FOUR)


def test_axes_in_their_order() -> None:
    assert is_proved(in_quarters(("A", "B")))
    assert not is_proved(in_quarters(("B", "A")))


def in_order(each: int, way: str, dim: int) -> str:
    made = f"tensor<5x{each}xf64>"
    return f"""%r = "stablehlo.sort"(%p) ({{
    ^bb0(%s: tensor<f64>, %t: tensor<f64>):
      %c = stablehlo.compare {way}, %s, %t : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }}) {{dimension = {dim} : i64, is_stable = true}} : ({made}) -> {made}"""


def put_in_order(
    way: str = "LT", order: str = "1, 0", low: int = 1, whole: int = 0, tile: int = 0
) -> Case:
    """Padded microbatches, sorted; `whole` and `tile` are dimensions to sort along."""
    source = [same("32xf64"), microbatches(32), in_order(8, "LT", whole)]
    local = [same("16xf64"), microbatches(16, order, low=low), in_order(4, way, tile)]
    return Case(
        function({"x": "32xf64"}, "5x8xf64", *source),
        function({"x": "16xf64"}, "5x4xf64", *local),
        [(("B",),)],
        ((), ("B",)),
        TWO,
    )


def test_microbatches_in_order() -> None:
    assert is_proved(put_in_order())


@pytest.mark.parametrize(
    "case",
    [
        put_in_order(way="GT"),
        put_in_order(order="0, 1"),
        put_in_order(low=0),
        put_in_order(tile=1),
        put_in_order(whole=1, tile=1),  # each device has a half of what is sorted
    ],
)
def test_other_orders(case: Case) -> None:
    assert not is_proved(case)
