"""Small programs, element by element: functions that are infinite do not vanish.

Tiles that are padded with zeros have their logarithms, too, and an infinity times the
zeros that the other side of a product is padded with is no zero.
"""

from __future__ import annotations

import pytest

from tests.verify.elements.test_wrong import PARTS, F, binary, twice, whole
from tests.verify.elements.test_wrong_numbers import dot
from tests.verify.modules import Case, constant, is_proved, unary

INFINITY = constant("k", "0x7F800000", F)
ZERO, ONE = constant("zero", "0.0", F), constant("one", "1.0", F)


def of(name: str, number: str) -> list[str]:
    """`%y`, a function of a number."""
    return [constant("k", number, F), unary("y", name, "k", F, F)]


def in_order(name: str, operand: str) -> str:
    return f"""%{name} = "stablehlo.sort"(%{operand}) ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }}) {{dimension = 0 : i64, is_stable = true}} : (tensor<{F}>) -> tensor<{F}>"""


FAR = {
    "log 0": of("log", "0.0"),
    "log of 0 * n": [
        ZERO,
        unary("m", "convert", "i", "4xi8", F),
        binary("z", "multiply", "m", "zero"),
        unary("y", "log", "z", F, F),
    ],
    "log of tanh 0": [
        ZERO,
        unary("z", "tanh", "zero", F, F),
        unary("y", "log", "z", F, F),
    ],
    "log(1 - 1)": of("log_plus_one", "-1.0"),
    "1 / sqrt 0": of("rsqrt", "0.0"),
    "one by the root of 0": [
        ZERO,
        ONE,
        unary("z", "sqrt", "zero", F, F),
        binary("t", "add", "z", "z"),
        binary("y", "divide", "one", "z"),
    ],
    "the root of -1": of("sqrt", "-1.0"),
    "exp 1000": of("exponential", "1000.0"),
    "exp of infinity": of("exponential", "0x7F800000"),
    "1 / 0": [ZERO, ONE, binary("y", "divide", "one", "zero")],
    "x / 0": [ZERO, binary("y", "divide", "x", "zero")],
    "x / (0 * n)": [
        ZERO,
        unary("m", "convert", "i", "4xi8", F),
        binary("z", "multiply", "m", "zero"),
        binary("y", "divide", "x", "z"),
    ],
    "0 to the -1": [
        ZERO,
        constant("k", "-1.0", F),
        binary("y", "power", "zero", "k"),
    ],
    "what nobody knows": [
        constant("k", "1.0", F),
        f"%y = chlo.atanh %k : tensor<{F}> -> tensor<{F}>",
    ],
    "rounded to fewer bits": [
        constant("k", "1.0e+30", F),
        f"%y = stablehlo.reduce_precision %k, format = e5m10 : tensor<{F}>",
    ],
    "a sum that is too large": [
        constant("k", "3.0e+38", F),
        binary("y", "add", "k", "k"),
    ],
    "in order": [INFINITY, in_order("y", "k")],
    "how large a complex number is": [
        constant("k", "(0x7F800000,0.0)", PARTS),
        unary("y", "abs", "k", PARTS, F),
    ],
    "a transform": [
        INFINITY,
        f"%w = stablehlo.complex %k, %x : tensor<{PARTS}>",
        "%v = stablehlo.fft %w, type = FFT, length = [4] :"
        f" (tensor<{PARTS}>) -> tensor<{PARTS}>",
        unary("y", "real", "v", PARTS, F),
    ],
}
NEAR = {
    "log 1": of("log", "1.0"),
    "exp of -infinity": of("exponential", "0xFF800000"),
    "a root": of("sqrt", "2.0"),
    "of an argument": [unary("y", "log", "x", F, F)],
    "in order": [in_order("y", "x")],
}


def vanishing(lines: list[str]) -> Case:
    """Zeros times `%y`, added to what the source has."""
    given = {"x": F, "i": "4xi8"}
    first = dot("s", "x", "x")
    nothing = [constant("none", "0.0", F), dot("n", "y", "none")]
    local = [first, twice("d", "s", "f32"), *lines, *nothing]
    last = binary("r", "add", "d", "n", "f32")
    return whole(given, "f32", [first, twice("r", "s", "f32")], [*local, last])


@pytest.mark.parametrize("lines", FAR.values(), ids=FAR)
def test_zero_times_what_is_infinite_is_not_nothing(lines: list[str]) -> None:
    assert not is_proved(vanishing(lines))


@pytest.mark.parametrize("lines", NEAR.values(), ids=NEAR)
def test_zero_times_what_may_be_finite_is(lines: list[str]) -> None:
    assert is_proved(vanishing(lines))


COMPLEX = {
    "times two": [
        INFINITY,
        f"%p = stablehlo.complex %x, %k : tensor<{PARTS}>",
        constant("two", "(2.0,0.0)", PARTS),
        binary("y", "multiply", "p", "two", PARTS),
    ],
    "log 0": [constant("k", "(0.0,0.0)", PARTS), unary("y", "log", "k", PARTS, PARTS)],
    "exp 1000": [
        constant("k", "(1000.0,0.0)", PARTS),
        unary("y", "exponential", "k", PARTS, PARTS),
    ],
    "1 / 0": [
        constant("k", "(1.0,0.0)", PARTS),
        constant("zero", "(0.0,0.0)", PARTS),
        binary("y", "divide", "k", "zero", PARTS),
    ],
}


@pytest.mark.parametrize("lines", COMPLEX.values(), ids=COMPLEX)
def test_nor_is_it_among_complex_numbers(lines: list[str]) -> None:
    given, made = {"x": F, "z": PARTS}, "complex<f32>"
    first = dot("s", "z", "z", PARTS, made)

    def local(lines: list[str]) -> list[str]:
        nothing = constant("none", "(0.0,0.0)", PARTS)
        last = [dot("n", "y", "none", PARTS, made), binary("r", "add", "d", "n", made)]
        return [first, twice("d", "s", made), *lines, nothing, *last]

    source = [first, twice("r", "s", made)]
    assert not is_proved(whole(given, made, source, local(lines)))
    same = f"%y = stablehlo.optimization_barrier %z : tensor<{PARTS}>"
    assert is_proved(whole(given, made, source, local([same])))
