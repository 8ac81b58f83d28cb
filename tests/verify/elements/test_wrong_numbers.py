"""Element by element: numbers at the edges of types, and products of other types."""

from __future__ import annotations

import pytest

from tests.verify.elements.test_wrong import F, binary, twice, whole
from tests.verify.modules import Case, compare, constant, is_proved, unary

INFINITY = constant("k", "0x7F800000", F)
PARTS = "4xcomplex<f32>"


def dot(name: str, x: str, y: str, type_: str = F, made: str = "f32") -> str:
    types = f"(tensor<{type_}>, tensor<{type_}>) -> tensor<{made}>"
    product = f"stablehlo.dot_general %{x}, %{y}, contracting_dims = [0] x [0]"
    return f"%{name} = {product} : {types}"


def in_order(name: str, operand: str) -> str:
    """`%name`, truths in their order."""
    return f"""%{name} = "stablehlo.sort"(%{operand}) ({{
    ^bb0(%a: tensor<i1>, %b: tensor<i1>):
      %c = stablehlo.compare LT, %a, %b : (tensor<i1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }}) {{dimension = 0 : i64, is_stable = true}} : (tensor<4xi1>) -> tensor<4xi1>"""


INFINITE = {
    "a maximum": [INFINITY, binary("y", "maximum", "x", "k")],
    "a product": [INFINITY, binary("y", "multiply", "x", "k")],
    "a quotient": [INFINITY, binary("y", "divide", "k", "x")],
    "rounded": [
        INFINITY,
        binary("a", "add", "x", "k"),
        unary("b", "convert", "a", F, "4xbf16"),
        unary("y", "convert", "b", "4xbf16", F),
    ],
    "without its sign": [
        constant("k", "0xFF800000", F),
        unary("y", "abs", "k", F, F),
    ],
    "chosen": [
        in_order("q", "p"),
        INFINITY,
        "%y = stablehlo.select %q, %k, %x : tensor<4xi1>, tensor<4xf32>",
    ],
}


@pytest.mark.parametrize("lines", INFINITE.values(), ids=INFINITE)
def test_what_is_made_of_an_infinity_does_not_vanish(lines: list[str]) -> None:
    """By zeros that it is multiplied by, in a sum of products."""
    given = {"x": F, "p": "4xi1"}
    first = dot("s", "x", "x")
    source = [first, twice("r", "s", "f32")]
    nothing = [constant("z", "0.0", F), dot("n", "y", "z")]
    local = [
        first,
        twice("t", "s", "f32"),
        *nothing,
        binary("r", "add", "t", "n", "f32"),
    ]
    assert not is_proved(whole(given, "f32", source, [*lines, *local]))
    finite = "%y = stablehlo.optimization_barrier %x : tensor<4xf32>"
    assert is_proved(whole(given, "f32", source, [finite, *local]))


def test_parts_of_complex_products_do_not_cancel() -> None:
    """a b - b a is nan, if a b is too large."""
    first = [
        f"%u = stablehlo.complex %a, %b : tensor<{PARTS}>",
        dot("w", "u", "u", PARTS, "complex<f32>"),
        unary("s", "real", "w", "complex<f32>", "f32"),
        twice("t", "s", "f32"),
    ]
    source = [*first, twice("r", "t", "f32")]
    local = [
        *first,
        f"%v = stablehlo.complex %b, %a : tensor<{PARTS}>",
        dot("x", "u", "v", PARTS, "complex<f32>"),
        unary("n", "real", "x", "complex<f32>", "f32"),
        twice("d", "t", "f32"),
        binary("r", "add", "d", "n", "f32"),
    ]
    assert not is_proved(whole({"a": F, "b": F}, "f32", source, local))


def test_a_number_is_known_only_in_a_type_that_has_it() -> None:
    """In a narrower one it was rounded, on the way to where it is compared."""
    number = constant("k", "1.00000095", F)
    source = [number, binary("s", "add", "x", "k"), twice("r", "s")]
    local = [
        number,
        constant("a", "1.0", "4xbf16"),
        constant("b", "9.53674316E-7", "4xbf16"),
        binary("c", "add", "a", "b", "4xbf16"),
        unary("d", "convert", "c", "4xbf16", F),
        constant("one", "1.0", F),
        compare("p", "GT", "d", "one", F),
        "%q = stablehlo.select %p, %x, %y : tensor<4xi1>, tensor<4xf32>",
        binary("s", "add", "q", "k"),
        twice("r", "s"),
    ]
    assert not is_proved(whole({"x": F, "y": F}, F, source, local))


ONE = constant("one", "1.0", F)
SIGNS = {
    "a product": [constant("a", "2.0", F), binary("z", "multiply", "a", "k")],
    "a quotient": [constant("a", "2.0", F), binary("z", "divide", "k", "a")],
    "a product with an argument": [binary("z", "multiply", "x", "k")],
}


@pytest.mark.parametrize("lines", SIGNS.values(), ids=SIGNS)
def test_zeros_have_signs(lines: list[str]) -> None:
    rest = [ONE, binary("i", "divide", "one", "z"), twice("r", "i")]
    source, local = (
        [constant("k", number, F), *lines, *rest] for number in ("-0.0", "0.0")
    )
    assert not is_proved(whole({"x": F}, F, source, local))
    assert is_proved(whole({"x": F}, F, source, source))


def test_a_product_may_not_be_of_numbers_that_its_type_has_not() -> None:
    """1e10 times 1e-10 is one, also in f16; but there both of these are not."""
    given, few = {"x": "4xbf16", "y": "4xbf16"}, "4xf16"
    source = [dot("p", "x", "y", "4xbf16", "f16"), twice("r", "p", "f16")]
    local = [
        unary("u", "convert", "x", "4xbf16", few),
        unary("v", "convert", "y", "4xbf16", few),
        dot("p", "u", "v", few, "f16"),
        twice("r", "p", "f16"),
    ]
    assert not is_proved(whole(given, "f16", source, local))


def precise(name: str, x: str, y: str, how: str) -> str:
    before, types = dot(name, x, y).split(" : ")
    return f"{before}, precision = [{how}, {how}] : {types}"


def products(one: str, other: str) -> list[str]:
    return [
        precise("a", "x", "y", one),
        precise("b", "y", "y", other),
        binary("r", "add", "a", "b", "f32"),
    ]


def in_turn(one: str, other: str) -> list[str]:
    return [
        precise("b", "y", "y", other),
        precise("a", "x", "y", one),
        binary("c", "add", "b", "b", "f32"),
        unary("n", "negate", "b", "f32", "f32"),
        binary("d", "add", "a", "n", "f32"),
        binary("r", "add", "c", "d", "f32"),
    ]


def test_each_product_is_as_precise_as_the_one_of_the_source() -> None:
    """And not as another one is that the source has as well."""
    given = {"x": F, "y": F}

    def case(one: str, other: str) -> Case:
        source = in_turn("HIGHEST", "DEFAULT")
        lines = [line.replace("%c, %d", "%d, %c") for line in in_turn(one, other)]
        return whole(given, "f32", source, lines)

    assert is_proved(case("HIGHEST", "DEFAULT"))
    assert not is_proved(case("DEFAULT", "HIGHEST"))
    source, local = products("HIGHEST", "DEFAULT"), products("DEFAULT", "HIGHEST")
    assert not is_proved(whole(given, "f32", source, local))


def mixed(name: str, x: str, y: str) -> str:
    return precise(name, x, y, "HIGHEST, DEFAULT").replace("DEFAULT, HIGHEST, ", "")


def test_operands_in_different_precisions_do_not_commute() -> None:
    """Be they compared as they are, or element by element."""
    given = {"x": F, "y": F}
    source, local = [mixed("r", "x", "y")], [mixed("r", "y", "x")]
    assert "[HIGHEST, DEFAULT]" in source[0]
    assert is_proved(whole(given, "f32", source, source))
    assert not is_proved(whole(given, "f32", source, local))
    summed = [binary("b", "add", "a", "a", "f32"), binary("r", "add", "b", "a", "f32")]
    source, local = [mixed("a", "x", "y"), *summed], [mixed("a", "y", "x"), *summed]
    assert not is_proved(whole(given, "f32", source, local))


def test_the_least_of_truths_is_whether_all_hold() -> None:
    """Also where it is a truth that is known by its name alone."""
    given = dict.fromkeys("xyz", "4xi1")
    first = [
        in_order(name, operand) for name, operand in zip("pqs", "xyz", strict=True)
    ]
    clamp = "%r = stablehlo.clamp %p, %q, %s : tensor<4xi1>"
    either = binary("t", "or", "p", "q", "4xi1")
    for op, proved in (("and", True), ("or", False)):
        local = [*first, either, binary("r", op, "t", "s", "4xi1")]
        assert is_proved(whole(given, "4xi1", [*first, clamp], local)) is proved


def test_zero_times_what_is_finite_has_a_sign_but_among_others() -> None:
    """A negative number makes it negative, and infinity by it; sums do not look."""
    given = {"n": "4xi8", "x": F}
    times = [
        unary("y", "convert", "n", "4xi8", F),
        constant("k", "0.0", F),
        binary("z", "multiply", "y", "k"),
    ]
    zero = [constant("z", "0.0", F)]
    divided = [ONE, binary("r", "divide", "one", "z")]
    assert not is_proved(whole(given, F, [*times, *divided], [*zero, *divided]))
    added = [binary("s", "add", "x", "z"), twice("r", "s")]
    assert is_proved(whole(given, F, [*times, *added], [*zero, *added]))


def test_sums_are_no_products_in_a_precision_that_others_ask_for() -> None:
    """By one: on TPUs it rounds them to eight bits."""
    first, zero = dot("p", "x", "x"), constant("z", "0.0", "f32")
    added = f"%s = stablehlo.reduce(%x init: %z) applies stablehlo.add across \
dimensions = [0] : (tensor<{F}>, tensor<f32>) -> tensor<f32>"
    last = binary("r", "add", "s", "p", "f32")
    local = [first, ONE, dot("s", "x", "one"), last]
    assert not is_proved(whole({"x": F}, "f32", [first, zero, added, last], local))


NONE = constant("c", "0x7FC00000", "1xf32")
TURNED = {
    "negated": [NONE, unary("n", "negate", "c", "1xf32", "1xf32")],
    "there and back": [
        constant("c", "0xFFC00000", "1xf32"),
        unary("d", "convert", "c", "1xf32", "1xf64"),
        unary("n", "convert", "d", "1xf64", "1xf32"),
    ],
    "of infinities": [
        constant("c", "0x7F800000", "1xf32"),
        constant("d", "0xFF800000", "1xf32"),
        binary("n", "add", "c", "d", "1xf32"),
    ],
    "times minus one": [
        NONE,
        constant("d", "-1.0", "1xf32"),
        binary("n", "multiply", "c", "d", "1xf32"),
    ],
}


@pytest.mark.parametrize("lines", TURNED.values(), ids=TURNED)
def test_what_is_no_number_has_a_sign(lines: list[str]) -> None:
    """By which it is before all numbers, or behind them, in their order."""

    def largest(first: list[str], *last: str) -> list[str]:
        types = "(tensor<1xf32>, tensor<4xf32>) -> tensor<5xf32>"
        return [
            *first,
            f"%row = stablehlo.concatenate %n, %x, dim = 0 : {types}",
            "%v:2 = chlo.top_k(%row, k = 2)"
            " : tensor<5xf32> -> (tensor<2xf32>, tensor<2xi32>)",
            *last,
        ]

    plain = [NONE, "%n = stablehlo.optimization_barrier %c : tensor<1xf32>"]
    source = largest(plain, binary("r", "add", "v#1", "v#1", "2xi32"))
    two = [constant("k", 2, "2xi32"), binary("r", "multiply", "v#1", "k", "2xi32")]
    assert is_proved(whole({"x": F}, "2xi32", source, largest(plain, *two)))
    assert not is_proved(whole({"x": F}, "2xi32", source, largest(lines, *two)))
