"""Look-ups and scatters in tiles that are wrong for some indices: none is proved."""

from __future__ import annotations

import re

import pytest

from tests.verify.modules import (
    Case,
    all_reduce,
    compare,
    constant,
    device,
    function,
    is_proved,
    permute,
    reducer,
    unary,
)

INDEX = "3x1xi32"
NUMBERS = {"zero": 0, "last": 7, "four": 4, "far": 9, "k": 19, "two": 2}
SHIFTED = (
    device("off", 4),
    unary("offs", "broadcast_in_dim|, dims = []", "off", "i32", INDEX),
    *(constant(name, number, INDEX) for name, number in NUMBERS.items()),
)


def gather(rows: int, index: str) -> str:
    return f""""stablehlo.gather"(%x, %{index}) {{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>, indices_are_sorted = false}}
    : (tensor<{rows}xf64>, tensor<{INDEX}>) -> tensor<3xf64>"""


def looked_up(index: str = "", mask: str = "", where: str = "inside") -> Case:
    """``x[i]`` where i is in a tile of four, summed; `%i` is clamped to `%c`."""
    source = function({"x": "8xf64", "i": INDEX}, "3xf64", f"%r = {gather(8, 'i')}")
    local = function(
        {"x": "4xf64", "i": INDEX},
        "3xf64",
        *SHIFTED,
        f"%c = stablehlo.clamp %zero, %i, %last : tensor<{INDEX}>",
        index or binary("j", "add", "c", "zero"),
        f"%l = stablehlo.subtract %j, %offs : tensor<{INDEX}>",
        f"%g = {gather(4, 'l')}",
        compare("low", "GE", "l", "zero", INDEX),
        compare("high", "LT", "l", "four", INDEX),
        "%inside = stablehlo.and %low, %high : tensor<3x1xi1>",
        mask,
        unary("m", "reshape", where, "3x1xi1", "3xi1"),
        constant("nothing", "0.0", "3xf64"),
        "%s = stablehlo.select %m, %g, %nothing : tensor<3xi1>, tensor<3xf64>",
        all_reduce("r", "s", "add", "3xf64"),
    )
    return Case(source, local, [(("B",),), ()])


def but(*made: str) -> str:
    """Where the index is in the tile, and `%q` is not `%two`."""
    unequal = compare("unequal", "NE", "n", "two", INDEX)
    both = "%but = stablehlo.and %inside, %unequal : tensor<3x1xi1>"
    return "\n  ".join((*made, unequal, both))


def reverse(name: str, operand: str, type_: str) -> str:
    return f"%{name} = stablehlo.reverse %{operand}, dims = [0] : tensor<{type_}>"


def binary(name: str, op: str, x: str, y: str) -> str:
    return f"%{name} = stablehlo.{op} %{x}, %{y} : tensor<{INDEX}>"


def scatter(
    rows: int, into: str, index: str, window: str = "inserted_window_dims = [0]"
) -> str:
    update = "3xf64" if "inserted" in window else "3x2xf64"
    region = reducer("add", "f64")
    return f"""%r = "stablehlo.scatter"(%{into}, %{index}, %u) {region} {{
    scatter_dimension_numbers = #stablehlo.scatter<{window},
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    indices_are_sorted = false, unique_indices = false}}
    : (tensor<{rows}xf64>, tensor<{INDEX}>, tensor<{update}>) -> tensor<{rows}xf64>"""


def scattered(
    change: str = "", into: str = "x", index: str = "l", window: str = ""
) -> Case:
    """``x.at[i].add(u)`` into a tile of four; negative indices are far out of it."""
    given = {"i": INDEX, "u": "3x2xf64" if window else "3xf64"}
    more = (window,) if window else ()
    local = function(
        {"x": "4xf64", **given},
        "4xf64",
        *SHIFTED,
        binary("sub", "subtract", "i", "offs"),
        compare("neg", "LT", "i", "zero", INDEX),
        f"%l = stablehlo.select %neg, %far, %sub : tensor<3x1xi1>, tensor<{INDEX}>",
        change,
        scatter(4, into, index, *more),
    )
    source = function({"x": "8xf64", **given}, "8xf64", scatter(8, "x", "i", *more))
    return Case(source, local, [(("B",),), (), ()], (("B",),))


def padded_index(name: str, operand: str) -> str:
    """One index more behind others: the third row."""
    types = "(tensor<2x1xi32>, tensor<i32>)"
    return (
        f"%{name} = stablehlo.pad %{operand}, %three, low = [0, 0], high = [1, 0],"
        f" interior = [0, 0] : {types} -> tensor<{INDEX}>"
    )


def scattered_beside_a_number() -> Case:
    """``x.at[i, 3].add(u)``; devices shift all indices but the last."""
    given = {"i": "2x1xi32", "u": "3xf64"}
    three = constant("three", 3, "i32")
    source = function(
        {"x": "8xf64", **given},
        "8xf64",
        three,
        padded_index("j", "i"),
        scatter(8, "x", "j"),
    )
    local = function(
        {"x": "4xf64", **given},
        "4xf64",
        three,
        device("off", 4),
        unary("offs", "broadcast_in_dim|, dims = []", "off", "i32", "2x1xi32"),
        "%sub = stablehlo.subtract %i, %offs : tensor<2x1xi32>",
        padded_index("l", "sub"),
        padded_index("j", "i"),
        "%both:2 = stablehlo.optimization_barrier %l, %j"
        f" : tensor<{INDEX}>, tensor<{INDEX}>",
        scatter(4, "x", "both#0"),
    )
    return Case(source, local, [(("B",),), (), ()], (("B",),))


def promised_order() -> Case:
    """A look-up that says that its indices are in order, which nobody knows."""
    source = function({"x": "8xf64", "i": INDEX}, "3xf64", f"%r = {gather(8, 'i')}")
    local = source.replace("indices_are_sorted = false", "indices_are_sorted = true")
    return Case(source, local, [(), ()])


RIGHT = {"a look-up": looked_up(), "a scatter": scattered()}
WRONG = {
    "indices in another order": looked_up(index=reverse("j", "c", INDEX)),
    "a mask in another order": looked_up(
        mask=reverse("turned", "inside", "3x1xi1"), where="turned"
    ),
    "all indices but some far ones": looked_up(
        mask=but(binary("n", "divide", "i", "k")), where="but"
    ),
    "all indices but one": looked_up(
        mask=but(binary("h", "subtract", "i", "k"), binary("n", "subtract", "h", "k")),
        where="but",
    ),
    "updates in another order": scattered(reverse("t", "l", INDEX), index="t"),
    "into the tiles of others": scattered(
        permute("y", "x", [[0, 1], [1, 0]], "4xf64"), into="y"
    ),
    "indices said to be in order": promised_order(),
    "a number beside shifted indices": scattered_beside_a_number(),
    "windows over the edges of tiles": scattered(window="update_window_dims = [1]"),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_only_what_is_right_is_proved(name: str) -> None:
    assert is_proved({**RIGHT, **WRONG}[name]) is (name in RIGHT)


def without_sign(case: Case) -> Case:
    """The same with indices that have no sign."""
    texts = (re.sub("(?<!u)i32", "ui32", text) for text in (case.source, case.local))
    return Case(*texts, *case[2:])


@pytest.mark.usefixtures("x64")
def test_an_index_without_a_sign_may_be_its_own_negative() -> None:
    """That in the middle of all is, far from where they wrap round; and zero."""
    negative = binary("back", "subtract", "zero", "i")
    other = compare("other", "NE", "back", "i", INDEX)
    is_zero = compare("none", "EQ", "i", "zero", INDEX)
    either = "%either = stablehlo.or %other, %none : tensor<3x1xi1>"
    both = "%but = stablehlo.and %inside, %either : tensor<3x1xi1>"
    mask = "\n  ".join((negative, other, is_zero, either, both))
    assert is_proved(without_sign(looked_up()))
    assert not is_proved(without_sign(looked_up(mask=mask, where="but")))


def test_sums_do_not_move_into_a_scatter_of_a_narrower_type() -> None:
    """There they wrap round; XLA reads no such scatter, but it has a meaning."""
    given = {"i": "2x1xi32"}

    def summed(rows: int) -> list[str]:
        types = f"(tensor<{rows}x2xi8>, tensor<i8>) -> tensor<2xi8>"
        added = "applies stablehlo.add across dimensions = [0]"
        return [
            constant("o", 0, "i8"),
            constant("z", 0, "4xi8"),
            f"%u = stablehlo.reduce(%x init: %o) {added} : {types}",
            f"""%s = "stablehlo.scatter"(%z, %i, %u) {reducer("add", "i32")} {{
            scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
              scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
            indices_are_sorted = false, unique_indices = false}}
            : (tensor<4xi8>, tensor<2x1xi32>, tensor<2xi8>) -> tensor<4xi32>""",
        ]

    last = "%r = stablehlo.optimization_barrier %s : tensor<4xi32>"
    source = function({"x": "4x2xi8", **given}, "4xi32", *summed(4), last)
    whole = all_reduce("r", "s", "add", "4xi32")
    local = function({"x": "2x2xi8", **given}, "4xi32", *summed(2), whole)
    assert not is_proved(Case(source, local, [(("B",),), ()]))
