"""Factors whose product is one, and sums that are zero, at the ends of types."""

from __future__ import annotations

import pytest

from tests.verify.modules import Case, constant, function, is_proved, unary

ROWS = (("B",),)
OVER, UNDER = [2.0**100] * 2 + [2.0**-100] * 2, [2.0**-100] * 2 + [2.0**100] * 2
TURNED = [2.0**-14] * 10 + [2.0**14] * 10
Steps = list[tuple[str, float]]


def multiplied(factors: list[float]) -> Steps:
    return [("multiply", factor) for factor in factors]


def scaled(dtype: str, steps: Steps, before: str = "negate") -> Case:
    """Devices multiply what the source has by numbers whose product is one."""
    whole, tile = f"4x{dtype}", f"2x{dtype}"
    first = unary("v0", before, "x", tile, tile)
    lines = [first]
    for number, (kind, by) in enumerate(steps):
        made = "r" if number + 1 == len(steps) else f"v{number + 1}"
        lines.append(constant(f"c{number}", by, tile))
        lines.append(
            f"%{made} = stablehlo.{kind} %v{number}, %c{number} : tensor<{tile}>"
        )
    source = function({"x": whole}, whole, unary("r", before, "x", whole, whole))
    return Case(source, function({"x": tile}, tile, *lines), [ROWS], ROWS)


WRONG = {
    "to infinity": scaled("f32", multiplied(OVER)),
    "to zero": scaled("f32", multiplied(UNDER)),
    "what is finite": scaled("f32", multiplied(UNDER), "sine"),
    "negative": scaled("f32", multiplied([-n for n in UNDER])),
    "divided": scaled("f32", [("divide", n) for n in TURNED]),
    "f16": scaled("f16", multiplied([2.0**-14, 2.0**14])),
    "f16, in steps": scaled("f16", multiplied([2.0**-6] * 2 + [2.0**6] * 2)),
    "f8": scaled("f8E4M3FN", multiplied([2.0**-6, 2.0**6])),
    "added": scaled("f32", [("add", 2.0**100), ("subtract", 2.0**100)]),
    "added, negative": scaled("f16", [("add", -1024.0), ("add", 1024.0)]),
    "f4": scaled("f4E2M1FN", multiplied([0.5, 2.0])),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_was_zero_or_infinite_is_not_what_it_was(case: Case) -> None:
    assert not is_proved(case)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_factors_within_a_types_range(dtype: str) -> None:
    assert is_proved(scaled(dtype, multiplied([0.25, 8.0, 0.5])))
    assert is_proved(scaled(dtype, [("divide", 8.0), ("multiply", 8.0)]))
    assert is_proved(scaled(dtype, [("add", 8.0), ("subtract", 8.0)]))


COMPLEX = "4xcomplex<f32>"


def test_complex_numbers_that_overflow() -> None:
    lines = [unary("v0", "negate", "x", COMPLEX, COMPLEX)]
    for number, factor in enumerate(OVER):
        lines.append(constant(f"c{number}", f"({factor}, 0.0)", COMPLEX))
        made = "r" if number == 3 else f"v{number + 1}"
        product = f"stablehlo.multiply %v{number}, %c{number}"
        lines.append(f"%{made} = {product} : tensor<{COMPLEX}>")
    source = function(
        {"x": COMPLEX}, COMPLEX, unary("r", "negate", "x", COMPLEX, COMPLEX)
    )
    assert not is_proved(Case(source, function({"x": COMPLEX}, COMPLEX, *lines), [()]))


def test_products_of_matrices_that_underflow() -> None:
    """The sum of each row, by numbers that are too small."""
    whole, single = "4x1xf32", "1x1xf32"
    lines = [unary("v0", "negate", "x", whole, whole)]
    for number, factor in enumerate(UNDER):
        lines.append(constant(f"c{number}", factor, single))
        made = "r" if number == 3 else f"v{number + 1}"
        types = f"(tensor<{whole}>, tensor<{single}>) -> tensor<{whole}>"
        dims = "contracting_dims = [1] x [0]"
        lines.append(
            f"%{made} = stablehlo.dot_general %v{number}, %c{number}, {dims} : {types}"
        )
    source = function({"x": whole}, whole, unary("r", "negate", "x", whole, whole))
    local = function({"x": whole}, whole, *lines)
    assert not is_proved(Case(source, local, [()]))


def test_sums_over_devices_move_past_numbers_at_an_end() -> None:
    """However small a factor is, it may come before a sum or behind."""
    zero = constant("z", 0.0, "f32")
    reduced = (
        "%s = stablehlo.reduce(%{} init: %z) applies stablehlo.add across "
        "dimensions = [0] : (tensor<{}xf32>, tensor<f32>) -> tensor<f32>"
    )
    small = constant("c", 2.0**-100, "f32")
    source = function(
        {"x": "4xf32"},
        "f32",
        zero,
        small,
        reduced.format("x", 4),
        "%r = stablehlo.multiply %s, %c : tensor<f32>",
    )
    local = function(
        {"x": "4xf32"},
        "f32",
        zero,
        constant("c", 2.0**-100, "4xf32"),
        "%y = stablehlo.multiply %x, %c : tensor<4xf32>",
        reduced.format("y", 4),
        unary("r", "negate", "n", "f32", "f32"),
    ).replace("%r = ", "%n = stablehlo.negate %s : tensor<f32>\n  %r = ")
    assert is_proved(Case(source, local, [()]))
