"""Small programs, element by element: wrong ones that look right are not proved."""

from __future__ import annotations

import pytest

from tests.verify.modules import (
    CHANNEL,
    WHOLE,
    Case,
    all_reduce,
    compare,
    constant,
    function,
    is_proved,
    reducer,
    unary,
)

F, S, U = "4xf32", "4xi32", "4xui32"


def binary(name: str, op: str, x: str, y: str, type_: str = F) -> str:
    return f"%{name} = stablehlo.{op} %{x}, %{y} : tensor<{type_}>"


def whole(
    given: dict[str, str],
    made: str,
    source: list[str],
    local: list[str],
    own: dict[str, str] | None = None,
    own_made: str = "",
) -> Case:
    """All devices do the same, on whole tensors; `own` types may be others."""
    return Case(
        function(given, made, *source),
        function(own or given, own_made or made, *local),
        [()] * len(given),
    )


def twice(name: str, operand: str, type_: str = F) -> str:
    return binary(name, "add", operand, operand, type_)


TYPES = {
    "a result of another type": whole(
        {"x": S},
        S,
        [twice("r", "x", S)],
        [unary("y", "convert", "x", S, U), twice("r", "y", U)],
        own_made=U,
    ),
    "a result of another shape": whole(
        {"x": "4x2xf32"},
        "4x2xf32",
        [twice("r", "x", "4x2xf32")],
        [unary("y", "reshape", "x", "4x2xf32", "8xf32"), twice("r", "y", "8xf32")],
        own_made="8xf32",
    ),
    "an argument of another type": whole(
        {"x": S},
        F,
        [twice("y", "x", S), unary("r", "convert", "y", S, F)],
        [
            unary("z", "convert", "x", U, S),
            twice("y", "z", S),
            unary("r", "convert", "y", S, F),
        ],
        own={"x": U},
    ),
    "an argument of another shape": whole(
        {"x": "4x2xf32"},
        "4x2xf32",
        [twice("r", "x", "4x2xf32")],
        [
            unary("z", "reshape", "x", "2x4xf32", "4x2xf32"),
            twice("r", "z", "4x2xf32"),
        ],
        own={"x": "2x4xf32"},
    ),
}


@pytest.mark.parametrize("case", TYPES.values(), ids=TYPES)
def test_types_are_those_of_tiles(case: Case) -> None:
    assert not is_proved(case)


def products(numbers: list[object], type_: str) -> list[str]:
    """``x`` times some numbers in turn, and twice that."""
    lines = [f"%y0 = stablehlo.optimization_barrier %x : tensor<{type_}>"]
    for place, number in enumerate(numbers):
        lines.append(constant(f"k{place}", number, type_))
        lines.append(
            binary(f"y{place + 1}", "multiply", f"y{place}", f"k{place}", type_)
        )
    return [*lines, twice("r", f"y{len(numbers)}", type_)]


LEAST = "1.17549435E-38"  # normal number
NUMBERS = {
    "the least f32 is not two": whole(
        {"x": F},
        F,
        [constant("k", "2.0", F), binary("r", "maximum", "x", "k")],
        [constant("k", LEAST, F), binary("r", "maximum", "x", "k")],
    ),
    "a product of floats is not one": whole(
        {"x": F}, F, [twice("r", "x")], products(["1.70141183E+38"], F)
    ),
    "a product of integers is not one": whole(
        {"x": S}, S, [twice("r", "x", S)], products([*[1 << 30] * 4, 1 << 7], S)
    ),
}


@pytest.mark.parametrize("case", NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_no_others(case: Case) -> None:
    assert not is_proved(case)


def chosen(name: str, which: str, x: str, y: str) -> str:
    types = "tensor<4xi1>, tensor<4xf32>"
    return f"%{name} = stablehlo.select %{which}, %{x}, %{y} : {types}"


ZERO, TWO = constant("zero", "0.0", F), constant("two", "2.0", F)
PARTS = "4xcomplex<f32>"
INFINITE = {
    "x - x": whole(
        {"x": F}, F, [constant("r", "0.0", F)], [binary("r", "subtract", "x", "x")]
    ),
    "0 * x": whole(
        {"x": F},
        F,
        [constant("r", "0.0", F)],
        [ZERO, binary("r", "multiply", "x", "zero")],
    ),
    "x + y - y": whole(
        {"x": F, "y": F},
        F,
        [twice("r", "x")],
        [
            binary("a", "add", "x", "y"),
            binary("b", "subtract", "a", "y"),
            binary("r", "add", "b", "x"),
        ],
    ),
    "x + -1 * x": whole(
        {"x": F},
        F,
        [constant("r", "0.0", F)],
        [
            constant("k", "-1.0", F),
            binary("y", "multiply", "x", "k"),
            binary("r", "add", "x", "y"),
        ],
    ),
    "a mask as a factor": whole(
        {"x": F, "m": "4xi1"},
        F,
        [ZERO, chosen("r", "m", "x", "zero")],
        [unary("f", "convert", "m", "4xi1", F), binary("r", "multiply", "x", "f")],
    ),
    "a factor in parts": whole(
        {"x": F, "i": S},
        F,
        [
            unary("f", "convert", "i", S, F),
            TWO,
            binary("g", "subtract", "f", "two"),
            binary("r", "multiply", "x", "g"),
        ],
        [
            unary("f", "convert", "i", S, F),
            TWO,
            binary("a", "multiply", "x", "f"),
            binary("b", "multiply", "x", "two"),
            binary("r", "subtract", "a", "b"),
        ],
    ),
    "complex products in another order": whole(
        {"x": PARTS, "y": PARTS, "z": PARTS},
        PARTS,
        [
            binary("a", "multiply", "x", "y", PARTS),
            binary("b", "multiply", "a", "z", PARTS),
            twice("r", "b", PARTS),
        ],
        [
            binary("a", "multiply", "y", "z", PARTS),
            binary("b", "multiply", "x", "a", PARTS),
            twice("r", "b", PARTS),
        ],
    ),
    "parts of a complex product": whole(
        {"x": F, "y": F},
        F,
        [TWO, binary("r", "multiply", "x", "two")],
        [
            f"%z = stablehlo.complex %x, %y : tensor<{PARTS}>",
            constant("k", "(2.0,0.0)", PARTS),
            binary("p", "multiply", "z", "k", PARTS),
            unary("r", "real", "p", PARTS, F),
        ],
    ),
}


@pytest.mark.parametrize("case", INFINITE.values(), ids=INFINITE)
def test_what_is_infinite_does_not_vanish(case: Case) -> None:
    assert not is_proved(case)


def of_sums(lines: list[str], others: list[str]) -> Case:
    """Twice what some lines make, which others do as well."""
    return whole(
        {"x": F, "y": F}, F, [*lines, twice("r", "s")], [*others, twice("r", "s")]
    )


THIRD = constant("k", "-3.0", F)
RIGHT = {
    "x - y": of_sums(
        [binary("s", "subtract", "x", "y")],
        [unary("n", "negate", "y", F, F), binary("s", "add", "n", "x")],
    ),
    "-(y - x)": of_sums(
        [binary("s", "subtract", "x", "y")],
        [binary("d", "subtract", "y", "x"), unary("s", "negate", "d", F, F)],
    ),
    "-3 * (x - y)": of_sums(
        [THIRD, binary("d", "subtract", "x", "y"), binary("s", "multiply", "d", "k")],
        [
            THIRD,
            binary("a", "multiply", "x", "k"),
            binary("b", "multiply", "y", "k"),
            binary("s", "subtract", "a", "b"),
        ],
    ),
    "-1 * x": of_sums(
        [unary("s", "negate", "x", F, F)],
        [constant("k", "-1.0", F), binary("s", "multiply", "x", "k")],
    ),
    "x / -2": of_sums(
        [constant("k", "-0.5", F), binary("s", "multiply", "x", "k")],
        [constant("k", "-2.0", F), binary("s", "divide", "x", "k")],
    ),
    "numbers": of_sums(
        [constant("k", "2.0", F), binary("s", "add", "x", "k")],
        [
            constant("k", "-1.0", F),
            constant("l", "3.0", F),
            binary("a", "add", "x", "k"),
            binary("s", "add", "a", "l"),
        ],
    ),
}


@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_sums_in_another_order_are_proved(case: Case) -> None:
    assert is_proved(case)


def test_bits_that_are_left_of_an_integer_are_not_all_of_it() -> None:
    """Those that `u`, with a number added and taken away, has in a narrower type."""
    few, many = "4xui8", "4xui4"
    source = [constant("k", 3, few), compare("r", "LT", "u", "k", few)]
    local = [
        unary("w", "convert", "u", few, U),
        binary("s", "add", "w", "y", U),
        unary("n", "convert", "s", U, many),
        unary("m", "convert", "y", U, many),
        binary("d", "subtract", "n", "m", many),
        constant("k", 3, many),
        compare("r", "LT", "d", "k", many),
    ]
    assert not is_proved(whole({"u": few, "y": U}, "4xi1", source, local))


def pool_gradient(operand: str, size: int, padding: str = "") -> str:
    """`%g`, what the largest of each two neighbours get."""
    wide = f"tensor<{size}xf32>"
    return f"""%g = "stablehlo.select_and_scatter"(%{operand}, %y, %zero) ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }}, {reducer("add", "f32")[1:-1]}) {{window_dimensions = array<i64: 2>{padding}}}
    : ({wide}, tensor<4xf32>, tensor<f32>) -> {wide}"""


def test_numbers_around_a_pool_may_be_chosen() -> None:
    """Before what is infinite as well: then nothing is left of what they get."""
    zero, given = constant("zero", "0.0", "f32"), {"x": F, "y": F}
    pad = "%w = stablehlo.pad %x, %far, low = [1], high = [0], interior = [0]"
    source = [
        zero,
        constant("far", "0xFF800000", "f32"),
        f"{pad} : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>",
        pool_gradient("w", 5),
        "%s = stablehlo.slice %g [1:5] : (tensor<5xf32>) -> tensor<4xf32>",
        twice("r", "s"),
    ]
    padding = ", padding = dense<[[1, 0]]> : tensor<1x2xi64>"
    local = [zero, pool_gradient("x", 4, padding), twice("r", "g")]
    assert not is_proved(whole(given, F, source, local))
    assert is_proved(whole(given, F, source, source))


def product(precision: str) -> str:
    types = "(tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>"
    how = f"contracting_dims = [1] x [0], precision = [{precision}, {precision}]"
    return f"%r = stablehlo.dot_general %x, %y, {how} : {types}"


def bits(number: str) -> list[str]:
    return [
        constant("k", number, F),
        unary("n", "bitcast_convert", "k", F, S),
        binary("r", "add", "x", "n", S),
    ]


OTHERS = {
    "a product in another precision": whole(
        {"x": "4x3xf32", "y": "3x4xf32"},
        "4x4xf32",
        [product("HIGHEST")],
        [product("DEFAULT")],
    ),
    "bits of what is no number": whole(
        {"x": S}, S, bits("0x7FC00000"), bits("0x7FC00001")
    ),
    "a complex number is not zero where its real part is": whole(
        {"x": F, "y": F},
        "4xi1",
        [unary("r", "convert", "x", F, "4xi1")],
        [
            f"%z = stablehlo.complex %x, %y : tensor<{PARTS}>",
            unary("r", "convert", "z", PARTS, "4xi1"),
        ],
    ),
}


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_what_else_is_not_the_same(case: Case) -> None:
    assert not is_proved(case)


def scattered(promise: str, windows: int) -> str:
    """Rows of `u` added to `%x`, from known places on."""
    types = f"(tensor<8xf32>, tensor<2x1xi32>, tensor<2x{windows}xf32>)"
    return f"""%s = "stablehlo.scatter"(%x, %i, %u) {reducer("add", "f32")} {{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    indices_are_sorted = false, unique_indices = {promise}
    }} : {types} -> tensor<8xf32>"""


@pytest.mark.parametrize(("windows", "proved"), [(1, True), (2, False)])
def test_windows_may_overlap_where_indices_are_unique(
    windows: int, proved: bool
) -> None:
    given = {"x": "8xf32", "u": f"2x{windows}xf32"}
    places = constant("i", "[[3], [4]]", "2x1xi32")
    source, local = (
        function(
            given,
            "8xf32",
            places,
            scattered(promise, windows),
            binary("r", op, "s", "s", "8xf32"),
        )
        for promise, op in (("false", "add"), ("true", "add"))
    )
    assert is_proved(Case(source, local, [(), ()])) is proved


@pytest.mark.parametrize("promise", ["indices_are_sorted", "unique_indices"])
def test_what_is_said_of_indices_is_said_in_their_type(promise: str) -> None:
    """Negative ones are the largest without a sign: both are left out of a scatter."""
    given = {"x": "8xf32", "i": "2x1xi8", "u": "2x1xf32"}
    says = scattered("false", 1).replace(f"{promise} = false", f"{promise} = true")
    source = [says.replace("2x1xi32", "2x1xi8"), twice("r", "s", "8xf32")]
    for dtype, proved in (("i8", True), ("ui8", False)):
        local = [
            unary("j", "convert", "i", "2x1xi8", f"2x1x{dtype}"),
            says.replace("%i", "%j").replace("2x1xi32", f"2x1x{dtype}"),
            constant("k", "2.0", "8xf32"),
            binary("r", "multiply", "s", "k", "8xf32"),
        ]
        assert is_proved(whole(given, "8xf32", source, local)) is proved


def test_devices_do_not_choose_by_garbage() -> None:
    """Of a short tile's end: each may go another way, and wait for the others."""
    choose = f"""%all = "stablehlo.all_gather"(%b) {{
    all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
    {CHANNEL}, use_global_device_ids}} : (tensor<2xi1>) -> tensor<4xi1>
  %last = stablehlo.slice %all [3:4] : (tensor<4xi1>) -> tensor<1xi1>
  %which = stablehlo.reshape %last : (tensor<1xi1>) -> tensor<i1>
  %r = "stablehlo.if"(%which) ({{
    {all_reduce("s", "x", "add", F)}
    stablehlo.return %s : tensor<{F}>
  }}, {{
    {all_reduce("t", "x", "add", F)}
    stablehlo.return %t : tensor<{F}>
  }}) : (tensor<i1>) -> tensor<{F}>"""
    local = function({"x": F, "b": "2xi1"}, F, choose)
    for count, proved in ((4, True), (3, False)):
        source = function({"x": F, "b": f"{count}xi1"}, F, twice("r", "x"))
        assert is_proved(Case(source, local, [WHOLE, (("B",),)])) is proved


def by_whether(*lines: str) -> list[str]:
    """Twice `x` where `%p` is `%q`, else twice `y`."""
    same = compare("t", "EQ", "p", "q", F)
    return [*lines, same, chosen("s", "t", "x", "y"), twice("r", "s")]


ONE = constant("one", "1.0", F)
ROUNDED = {
    "a third is what its type has": (
        [constant("k", "3.0", F), ONE, binary("p", "divide", "one", "k")],
        constant("q", "0.333333343", F),
        "x",
    ),
    "41 times its inverse is not one": (
        [
            constant("k", "41.0", F),
            ONE,
            binary("i", "divide", "one", "k"),
            binary("p", "multiply", "i", "k"),
        ],
        constant("q", "1.0", F),
        "y",
    ),
}


@pytest.mark.parametrize(("lines", "number", "right"), ROUNDED.values(), ids=ROUNDED)
def test_known_numbers_are_rounded(lines: list[str], number: str, right: str) -> None:
    source = by_whether(*lines, number)
    for one in "xy":
        case = whole({"x": F, "y": F}, F, source, [twice("r", one)])
        assert not is_proved(case) or one == right
