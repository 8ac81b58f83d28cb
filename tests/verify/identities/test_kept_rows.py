"""Rows and numbers of dimensions that reductions keep, and what these make of them."""

from __future__ import annotations

import pytest

from partir.mesh import Mesh
from tests.verify.modules import (
    CHANNEL,
    Case,
    Tiling,
    all_reduce,
    compare,
    constant,
    device,
    function,
    is_proved,
    reducer,
    unary,
)

pytestmark = pytest.mark.quick

SEVEN, ZERO = constant("z", "7.0", "f32"), constant("n", "0.0", "f32")
COLUMNS: Tiling = ((), ("B",))
FOUR = Mesh({"B": 2, "C": 2})


def padded(name: str, operand: str, before: str, rows: int = 2) -> str:
    """`%name`, with two rows of a number behind those of an operand."""
    first, _, others = before.partition("x")
    after = f"{int(first) + rows}x{others}"
    rank = before.count("x")
    none = [0] * rank
    return (
        f"%{name} = stablehlo.pad %{operand}, %z, low = {none},"
        f" high = {[rows, *none[1:]]}, interior = {none}"
        f" : (tensor<{before}>, tensor<f32>) -> tensor<{after}>"
    )


def spread(name: str, operand: str, dims: list[int], before: str, after: str) -> str:
    return unary(name, f"broadcast_in_dim|, dims = {dims}", operand, before, after)


def summed(
    name: str, operand: str, dims: list[int], before: str, after: str, op: str = "add"
) -> str:
    """`%name`, reduced from `%n`."""
    types = f"(tensor<{before}>, tensor<f32>) -> tensor<{after}>"
    return (
        f"%{name} = stablehlo.reduce(%{operand} init: %n) applies stablehlo.{op}"
        f" across dimensions = {dims} : {types}"
    )


def cut(name: str, operand: str, at: str, before: str, after: str) -> str:
    return unary(name, f"slice| [{at}]", operand, before, after)


def add(name: str, one: str, other: str, type_: str) -> str:
    return f"%{name} = stablehlo.add %{one}, %{other} : tensor<{type_}>"


def dot(name: str, one: str, other: str, type_: str) -> str:
    return (
        f"%{name} = stablehlo.dot_general %{one}, %{other}, batching_dims = [0] x [0],"
        f" contracting_dims = [1] x [1] : (tensor<{type_}>, tensor<{type_}>)"
        " -> tensor<6xf32>"
    )


def products(columns: int) -> Case:
    """Products of rows, and of sevens: the latter of other rows, of so many columns."""
    given = {"x": "4x3xf32", "y": "4x3xf32", "u": f"4x{columns}xf32"}
    both = [padded("a", "x", "4x3xf32"), padded("b", "y", "4x3xf32")]
    source = function(given, "6xf32", SEVEN, *both, dot("r", "a", "b", "6x3xf32"))
    wide = f"6x{columns}xf32"
    local = function(
        given,
        "6xf32",
        SEVEN,
        *both,
        dot("c", "a", "b", "6x3xf32"),
        padded("d", "u", f"4x{columns}xf32"),
        dot("e", "d", "d", wide),
        cut("f", "c", "0:4", "6xf32", "4xf32"),
        cut("g", "e", "4:6", "6xf32", "2xf32"),
        "%r = stablehlo.concatenate %f, %g, dim = 0"
        " : (tensor<4xf32>, tensor<2xf32>) -> tensor<6xf32>",
    )
    return Case(source, local, [(), (), ()])


def test_products_of_numbers_count_how_many_are_added_up() -> None:
    assert not is_proved(products(5))


def outer(*then: str) -> Case:
    """Sums of a row and a column; padded before, or, by devices, behind."""
    given = {"x": "4xf32", "y": "5xf32"}
    whole, part = "6x5xf32", "4x5xf32"
    source = function(
        given,
        whole,
        SEVEN,
        padded("a", "x", "4xf32"),
        spread("b", "a", [0], "6xf32", whole),
        spread("c", "y", [1], "5xf32", whole),
        add("r", "b", "c", whole),
    )
    local = function(
        given,
        whole,
        SEVEN,
        spread("b", "x", [0], "4xf32", part),
        spread("c", "y", [1], "5xf32", part),
        add("d", "b", "c", part),
        padded("e", "d", part),
        *then,
    )
    return Case(source, local, [(), ()])


def test_the_largest_of_equal_numbers_is_that_number() -> None:
    """And not what an op makes of it in place of one operand's row."""
    lowest = constant("n", "0xFF800000", "f32")
    again = spread("f", "e", [0, 1], "6x5xf32", "6x5x3xf32")
    largest = summed("r", "f", [2], "6x5x3xf32", "6x5xf32", "maximum")
    assert not is_proved(outer(lowest, again, largest))


def twice(*, pads_first: bool, op: str = "add") -> Case:
    """A reduction over two dimensions in turn; numbers come before both, or one."""
    given = {"x": "4x5x3xf32"}
    start = constant("n", "1.0", "f32") if op == "multiply" else ZERO
    source = function(
        given,
        "6xf32",
        SEVEN,
        start,
        padded("a", "x", "4x5x3xf32"),
        summed("r", "a", [1, 2], "6x5x3xf32", "6xf32", op),
    )
    body = (
        padded("a", "x", "4x5x3xf32"),
        summed("b", "a", [2], "6x5x3xf32", "6x5xf32", op),
        summed("r", "b", [1], "6x5xf32", "6xf32", op),
    )
    if not pads_first:
        body = (
            summed("a", "x", [2], "4x5x3xf32", "4x5xf32", op),
            padded("b", "a", "4x5xf32"),
            body[2],
        )
    local = function(given, "6xf32", SEVEN, start, *body)
    return Case(source, local, [()])


@pytest.mark.parametrize("op", ["add", "multiply"])
def test_numbers_are_added_up_as_often_as_they_are_there(op: str) -> None:
    assert is_proved(twice(pads_first=True, op=op))
    assert not is_proved(twice(pads_first=False, op=op))


def parts_and_numbers(number: str) -> Case:
    """Padded sums of columns, and other sums; devices pad what they have."""
    given = {"x": "4x2xf32", "y": "5x2xf32"}
    made = "6x5xf32"
    outer_ = [
        spread("d", "c", [0], "6xf32", made),
        spread("e", "b", [1], "5xf32", made),
    ]
    source = function(
        given,
        made,
        constant("z", "14.0", "f32"),
        ZERO,
        summed("a", "x", [1], "4x2xf32", "4xf32"),
        summed("b", "y", [1], "5x2xf32", "5xf32"),
        padded("c", "a", "4xf32"),
        *outer_,
        add("r", "d", "e", made),
    )
    local = function(
        {"x": "4x1xf32", "y": "5x1xf32"},
        made,
        constant("z", number, "f32"),
        unary("a", "reshape", "x", "4x1xf32", "4xf32"),
        unary("b", "reshape", "y", "5x1xf32", "5xf32"),
        padded("c", "a", "4xf32"),
        *outer_,
        add("f", "d", "e", made),
        all_reduce("r", "f", "add", made),
    )
    return Case(source, local, [COLUMNS, COLUMNS])


def test_devices_add_up_numbers_in_place_of_one_operand() -> None:
    assert not is_proved(parts_and_numbers("14.0"))


def stencil(x: str, y: str) -> Case:
    """Rows of one sum and the next rows of another, whose sums come in turn."""
    given = {"x": "4x2xf32", "y": "4x2xf32"}
    source = function(
        given,
        "3xf32",
        ZERO,
        summed("b", "y", [1], "4x2xf32", "4xf32"),
        summed("a", "x", [1], "4x2xf32", "4xf32"),
        cut("c", "a", "1:4", "4xf32", "3xf32"),
        cut("d", "b", "0:3", "4xf32", "3xf32"),
        add("r", "c", "d", "3xf32"),
    )
    local = function(
        {"x": "4x1xf32", "y": "4x1xf32"},
        "3xf32",
        unary("a", "reshape", "x", "4x1xf32", "4xf32"),
        unary("b", "reshape", "y", "4x1xf32", "4xf32"),
        cut("c", "a", x, "4xf32", "3xf32"),
        cut("d", "b", y, "4xf32", "3xf32"),
        add("e", "c", "d", "3xf32"),
        all_reduce("r", "e", "add", "3xf32"),
    )
    return Case(source, local, [COLUMNS, COLUMNS])


def test_each_operand_keeps_its_rows_when_a_sum_moves_inwards() -> None:
    """Whichever of the sums comes first in the source."""
    assert is_proved(stencil("1:4", "0:3"))
    assert not is_proved(stencil("0:3", "1:4"))


def on_some(all_of: str) -> Case:
    """Doubled rows and a number; only some of the devices hold rows and a number."""
    given = {"x": "4xf32"}
    source = function(
        given,
        "6xf32",
        SEVEN,
        ZERO,
        spread("a", "x", [1], "4xf32", "2x4xf32"),
        summed("b", "a", [0], "2x4xf32", "4xf32"),
        padded("r", "b", "4xf32"),
    )
    local = function(
        given,
        "6xf32",
        SEVEN,
        constant("n", "0.0", "6xf32"),
        padded("a", "x", "4xf32"),
        "%id = stablehlo.partition_id : tensor<ui32>",
        constant("two", 2, "ui32"),
        compare("b", "LT", "id", "two", "ui32"),
        spread("c", "b", [], "i1", "6xi1"),
        "%d = stablehlo.select %c, %a, %n : tensor<6xi1>, tensor<6xf32>",
        f"""%r = "stablehlo.all_reduce"(%d) {reducer("add", "f32")} {{
    replica_groups = dense<{all_of}> : tensor<1x4xi64>, {CHANNEL},
    use_global_device_ids}} : (tensor<6xf32>) -> tensor<6xf32>""",
    )
    return Case(source, local, [()], mesh=FOUR)


def test_a_number_that_several_devices_hold_is_added_up_too() -> None:
    assert not is_proved(on_some("[[0, 1, 2, 3]]"))


def test_a_number_beside_rows_is_no_row_of_the_op_that_made_these() -> None:
    """Joined with what does not depend on these rows, and cut off again."""
    more = [constant(f"z{n}", f"{n}.0", "f32") for n in range(6)]
    wider = [
        f"%w{n} = stablehlo.pad %{f'w{n - 1}' if n else 'e'}, %z{n}, low = [0, 0],"
        f" high = [1, 0], interior = [0, 0]"
        f" : (tensor<{6 + n}x5xf32>, tensor<f32>) -> tensor<{7 + n}x5xf32>"
        for n in range(6)
    ]
    assert not is_proved(
        outer(
            *more,
            *wider,
            spread("f", "y", [1], "5xf32", "12x5xf32"),
            "%g = stablehlo.concatenate %w5, %f, dim = 1"
            " : (tensor<12x5xf32>, tensor<12x5xf32>) -> tensor<12x10xf32>",
            cut("r", "g", "0:6, 0:5", "12x10xf32", "6x5xf32"),
        )
    )


def shifted_sums(rows: int) -> Case:
    """Sums of rows of x, and of windows of y; each of four devices has a row of x."""
    given = {"x": f"{rows}x5xf32", "y": "8xf32"}
    window = f"""%b = "stablehlo.reduce_window"(%y, %n) {reducer("add", "f32")} {{
    window_dimensions = array<i64: 4>}} : (tensor<8xf32>, tensor<f32>) -> tensor<5xf32>
  """
    source = function(
        given,
        "5xf32",
        ZERO,
        summed("a", "x", [0], given["x"], "5xf32"),
        window,
        add("r", "a", "b", "5xf32"),
    )
    local = function(
        given,
        "5xf32",
        device("d", 1),
        constant("o", 0, "i32"),
        "%a = stablehlo.dynamic_slice %x, %d, %o, sizes = [1, 5]"
        f" : (tensor<{given['x']}>, tensor<i32>, tensor<i32>) -> tensor<1x5xf32>",
        unary("b", "reshape", "a", "1x5xf32", "5xf32"),
        "%c = stablehlo.dynamic_slice %y, %d, sizes = [5]"
        " : (tensor<8xf32>, tensor<i32>) -> tensor<5xf32>",
        add("e", "b", "c", "5xf32"),
        f"""%r = "stablehlo.all_reduce"(%e) {reducer("add", "f32")} {{
    replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, {CHANNEL},
    use_global_device_ids}} : (tensor<5xf32>) -> tensor<5xf32>""",
    )
    return Case(source, local, [(), ()], mesh=FOUR)


def test_a_sum_over_devices_is_one_over_the_rows_that_they_have() -> None:
    """And not over all that there are, if there are more."""
    assert is_proved(shifted_sums(4))
    assert not is_proved(shifted_sums(8))


def scaled(number: str, *, hidden: bool) -> Case:
    """Sums of columns times four numbers and one more; devices multiply first."""
    factors = [
        constant("z", number, "f32"),
        constant("a", "[1.0, 2.0, 3.0, 4.0]", "4xf32"),
        constant("b", "[0.5, 0.25, 8.0, 9.0, 3.0]", "5xf32"),
        padded("c", "a", "4xf32", 1),
        "%d = stablehlo.maximum %b, %c : tensor<5xf32>",
    ]
    factor = "d" if hidden else "c"
    source = function(
        {"x": "5x2xf32"},
        "5xf32",
        ZERO,
        *factors,
        summed("s", "x", [1], "5x2xf32", "5xf32"),
        f"%r = stablehlo.multiply %s, %{factor} : tensor<5xf32>",
    )
    local = function(
        {"x": "5x1xf32"},
        "5xf32",
        *factors,
        unary("s", "reshape", "x", "5x1xf32", "5xf32"),
        f"%m = stablehlo.multiply %s, %{factor} : tensor<5xf32>",
        all_reduce("r", "m", "add", "5xf32"),
    )
    return Case(source, local, [COLUMNS])


@pytest.mark.parametrize("hidden", [False, True])
def test_sums_move_past_numbers_in_place_of_rows_that_are_finite(hidden: bool) -> None:
    assert is_proved(scaled("3.0", hidden=hidden))
    assert not is_proved(scaled("0x7F800000", hidden=hidden))


def sliced_sums(number: str) -> Case:
    """Two of the sums of columns and of numbers, at a computed place."""
    slice_ = (
        "stablehlo.dynamic_slice %a, %i, sizes = [2]"
        " : (tensor<6xf32>, tensor<i32>) -> tensor<2xf32>"
    )
    source = function(
        {"x": "4x2xf32", "i": "i32"},
        "2xf32",
        constant("z", number, "f32"),
        ZERO,
        summed("s", "x", [1], "4x2xf32", "4xf32"),
        padded("a", "s", "4xf32"),
        f"%r = {slice_}",
    )
    local = function(
        {"x": "4x1xf32", "i": "i32"},
        "2xf32",
        constant("z", number, "f32"),
        unary("s", "reshape", "x", "4x1xf32", "4xf32"),
        padded("a", "s", "4xf32"),
        f"%b = {slice_}",
        all_reduce("r", "b", "add", "2xf32"),
    )
    return Case(source, local, [COLUMNS, ()])


def test_numbers_among_rows_that_are_sliced_are_added_up_too() -> None:
    assert is_proved(sliced_sums("0.0"))
    assert not is_proved(sliced_sums("7.0"))
