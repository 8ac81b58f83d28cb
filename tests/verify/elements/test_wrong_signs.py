"""Small programs, element by element: signs of zeros, of what is no number."""

from __future__ import annotations

import pytest

from tests.verify.elements.test_wrong import PARTS, F, binary, chosen, twice, whole
from tests.verify.elements.test_wrong_numbers import dot
from tests.verify.modules import compare, constant, is_proved, unary

ONE = constant("one", "1.0", F)
FEW = "4xf8E4M3FNUZ"


def inverse(*lines: str) -> list[str]:
    """Twice the inverse of `%z`, which is one of two infinities if that is zero."""
    return [ONE, *lines, binary("i", "divide", "one", "z"), twice("r", "i")]


def real_part(number: str) -> list[str]:
    return inverse(constant("c", number, PARTS), unary("z", "real", "c", PARTS, F))


ZEROS = {
    "of a part": (real_part("(-0.0,1.0)"), real_part("(0.0,1.0)")),
    "of a part that is negated": (
        inverse(
            constant("k", "0.0", F),
            f"%c = stablehlo.complex %k, %x : tensor<{PARTS}>",
            unary("m", "negate", "c", PARTS, PARTS),
            unary("z", "real", "m", PARTS, F),
        ),
        inverse(constant("z", "0.0", F)),
    ),
    "in a type that has only one": (
        inverse(
            constant("k", "0.0", FEW),
            unary("n", "negate", "k", FEW, FEW),
            unary("z", "convert", "n", FEW, F),
        ),
        inverse(constant("z", "-0.0", F)),
    ),
}


@pytest.mark.parametrize(("source", "local"), ZEROS.values(), ids=ZEROS)
def test_zeros_have_signs_everywhere(source: list[str], local: list[str]) -> None:
    assert not is_proved(whole({"x": F}, F, source, local))
    assert is_proved(whole({"x": F}, F, source, source))


def test_zeros_of_parts_add_nothing() -> None:
    """Nor do they multiply anything."""
    types = {"z": PARTS}

    def times(number: str) -> list[str]:
        return [
            constant("k", number, PARTS),
            dot("p", "z", "k", PARTS, "complex<f32>"),
            twice("r", "p", "complex<f32>"),
        ]

    source, local = times("(2.0,0.0)"), times("(2.0,-0.0)")
    assert is_proved(whole(types, "complex<f32>", source, local))


UNSIGNED = "4xf8E8M0FNU"
WITHOUT = {
    "x - y, and -(y - x)": (
        [binary("d", "subtract", "x", "y", UNSIGNED)],
        [
            binary("n", "subtract", "y", "x", UNSIGNED),
            unary("d", "negate", "n", UNSIGNED, UNSIGNED),
        ],
    ),
    "x, and -(-x)": (
        [f"%d = stablehlo.optimization_barrier %x : tensor<{UNSIGNED}>"],
        [
            unary("n", "negate", "x", UNSIGNED, UNSIGNED),
            unary("d", "negate", "n", UNSIGNED, UNSIGNED),
        ],
    ),
    "x, and x and nothing": (
        [f"%d = stablehlo.optimization_barrier %x : tensor<{UNSIGNED}>"],
        [
            constant("f", "false", "4xi1"),
            unary("n", "convert", "f", "4xi1", UNSIGNED),
            binary("d", "add", "n", "x", UNSIGNED),
        ],
    ),
}


@pytest.mark.parametrize(("source", "local"), WITHOUT.values(), ids=WITHOUT)
def test_what_has_no_sign_is_not_negative(source: list[str], local: list[str]) -> None:
    """It is no number then; and it has no zero either."""
    last, given = twice("r", "d", UNSIGNED), {"x": UNSIGNED, "y": UNSIGNED}
    assert not is_proved(whole(given, UNSIGNED, [*source, last], [*local, last]))


def test_integers_are_rounded_once() -> None:
    """To 64 bits and then to 32, this one would be 2**60."""
    many, number = "4xi64", (1 << 60) + (1 << 36) + 1
    source = [
        constant("k", number, many),
        unary("p", "convert", "k", many, F),
        constant("q", float(1 << 60), F),
        compare("t", "EQ", "p", "q", F),
        chosen("s", "t", "x", "y"),
        twice("r", "s"),
    ]
    assert not is_proved(whole({"x": F, "y": F}, F, source, [twice("r", "x")]))


NONE, ALONE = constant("c", "0x7FC00000", "1xf32"), "1xf32"
TURNED = {
    "from bits": [
        constant("b", -(1 << 22), "1xi32"),
        unary("n", "bitcast_convert", "b", "1xi32", ALONE),
    ],
    "added to what may be none": [NONE, binary("n", "add", "w", "c", ALONE)],
}


@pytest.mark.parametrize("lines", TURNED.values(), ids=TURNED)
def test_what_is_no_number_has_a_sign(lines: list[str]) -> None:
    def places(*first: str) -> list[str]:
        types = "(tensor<1xf32>, tensor<4xf32>) -> tensor<5xf32>"
        return [
            *first,
            f"%row = stablehlo.concatenate %n, %x, dim = 0 : {types}",
            "%v:2 = chlo.top_k(%row, k = 2)"
            " : tensor<5xf32> -> (tensor<2xf32>, tensor<2xi32>)",
        ]

    last = binary("r", "add", "v#1", "v#1", "2xi32")
    two = [constant("k", 2, "2xi32"), binary("r", "multiply", "v#1", "k", "2xi32")]
    same = f"%n = stablehlo.optimization_barrier %c : tensor<{ALONE}>"
    given, source = {"x": F, "w": ALONE}, [*places(NONE, same), last]
    assert is_proved(whole(given, "2xi32", source, [*places(NONE, same), *two]))
    assert not is_proved(whole(given, "2xi32", source, [*places(*lines), *two]))


def test_negatives_of_known_numbers_do_not_cancel() -> None:
    """3 x - 3 x is no number if x is infinite."""
    first = dot("s", "x", "x")
    source = [first, twice("r", "s", "f32")]
    local = [
        first,
        twice("d", "s", "f32"),
        constant("k", "3.0", F),
        unary("m", "negate", "k", F, F),
        dot("a", "x", "k"),
        dot("b", "x", "m"),
        binary("c", "add", "a", "b", "f32"),
        binary("r", "add", "d", "c", "f32"),
    ]
    assert not is_proved(whole({"x": F}, "f32", source, local))
