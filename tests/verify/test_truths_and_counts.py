"""Truths that add up, and factors that are finite."""

from __future__ import annotations

import pytest

from tests.verify.modules import Case, all_reduce, constant, function, is_proved, unary

pytestmark = pytest.mark.quick
HALVES = "contracting_dims = [1] x [0]"


def product(dtype: str, op: str, kept: str = "") -> Case:
    """A product over two devices, their parts put together by an op."""
    kept = kept or dtype
    source = function(
        {"x": f"4x2x{dtype}", "y": f"2x3x{dtype}"},
        f"4x3x{kept}",
        f"%r = stablehlo.dot_general %x, %y, {HALVES} : "
        f"(tensor<4x2x{dtype}>, tensor<2x3x{dtype}>) -> tensor<4x3x{kept}>",
    )
    local = function(
        {"x": f"4x1x{dtype}", "y": f"1x3x{dtype}"},
        f"4x3x{kept}",
        f"%h = stablehlo.dot_general %x, %y, {HALVES} : "
        f"(tensor<4x1x{dtype}>, tensor<1x3x{dtype}>) -> tensor<4x3x{kept}>",
        all_reduce("r", "h", op, f"4x3x{kept}"),
    )
    return Case(source, local, [((), ("B",)), (("B",),)])


@pytest.mark.parametrize("op", ["or", "add", "maximum"])
def test_products_of_truths_hold_if_one_part_does(op: str) -> None:
    assert is_proved(product("i1", op))


@pytest.mark.parametrize(
    ("dtype", "op", "kept"),
    [
        ("i1", "and", "i1"),
        ("i1", "xor", "i1"),
        ("i1", "multiply", "i1"),
        ("i1", "or", "i32"),  # which counts
        ("i8", "or", "i8"),
        ("i8", "maximum", "i8"),
    ],
)
def test_products_that_are_put_together_otherwise(
    dtype: str, op: str, kept: str
) -> None:
    assert not is_proved(product(dtype, op, kept))


def reduction(op: str, over: str) -> Case:
    """Truths reduced on devices, and over them."""
    start = "false" if op in ("or", "add", "maximum") else "true"
    line = (
        "%{} = stablehlo.reduce(%x init: %z) applies stablehlo.{} across dimensions = "
        "[0] : (tensor<{}xi1>, tensor<i1>) -> tensor<i1>"
    )
    number = constant("z", start, "i1")
    source = function({"x": "8xi1"}, "i1", number, line.format("r", op, 8))
    local = function(
        {"x": "4xi1"},
        "i1",
        number,
        line.format("h", op, 4),
        all_reduce("r", "h", over, "i1"),
    )
    return Case(source, local, [(("B",),)])


ALIKE = {"or": "or", "add": "or", "maximum": "or"}
ALIKE |= {"and": "and", "multiply": "and", "minimum": "and"}


@pytest.mark.parametrize("over", ALIKE)
@pytest.mark.parametrize("op", ALIKE)
def test_truths_have_two_ways_to_be_reduced(op: str, over: str) -> None:
    assert is_proved(reduction(op, over)) == (ALIKE[op] == ALIKE[over])


def scaled(whole: str, dtype: str, *factor: str) -> Case:
    """A sum over devices times `%c`, made of `%n`, and the sum of such products."""
    source = function(
        {"x": f"2x{dtype}", "n": whole},
        dtype,
        constant("z", 0.0, dtype),
        f"%s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = "
        f"[0] : (tensor<2x{dtype}>, tensor<{dtype}>) -> tensor<{dtype}>",
        *factor,
        f"%r = stablehlo.multiply %s, %c : tensor<{dtype}>",
    )
    local = function(
        {"x": f"1x{dtype}", "n": whole},
        dtype,
        *factor,
        unary("o", "reshape", "x", f"1x{dtype}", dtype),
        f"%k = stablehlo.multiply %o, %c : tensor<{dtype}>",
        all_reduce("r", "k", "add", dtype),
    )
    return Case(source, local, [(("B",),), ()])


def converted(name: str, whole: str, dtype: str) -> str:
    return unary(name, "convert", "n", whole, dtype)


def of(kind: str, dtype: str) -> tuple[str, ...]:
    """An op on a converted integer."""
    return converted("f", "i32", dtype), unary("c", kind, "f", dtype, dtype)


@pytest.mark.parametrize(
    "case",
    [
        scaled("i64", "f32", converted("c", "i64", "f32")),
        scaled("i16", "f16", converted("c", "i16", "f16")),
        scaled("i32", "f32", *of("cosine", "f32")),
        scaled("i32", "f32", *of("tanh", "f32")),
        scaled(
            "i32",
            "f32",
            converted("f", "i32", "f32"),
            constant("d", 0.5, "f32"),
            "%e = stablehlo.divide %f, %d : tensor<f32>",
            "%c = stablehlo.add %e, %d : tensor<f32>",
        ),
    ],
)
def test_a_sum_moves_past_what_is_bounded(case: Case) -> None:
    assert is_proved(case)


@pytest.mark.parametrize(
    "case",
    [
        scaled("ui16", "f16", converted("c", "ui16", "f16")),
        scaled("i32", "f16", converted("c", "i32", "f16")),
        scaled("i32", "f32", *of("exponential", "f32")),
        scaled("i32", "f32", *of("rsqrt", "f32")),
        scaled("f32", "f32", unary("c", "cosine", "n", "f32", "f32")),  # of infinity
        scaled(
            "i32",
            "f32",
            converted("f", "i32", "f32"),
            constant("d", "1.0e-45", "f32"),  # is zero where there are no denormals
            "%c = stablehlo.divide %f, %d : tensor<f32>",
        ),
        scaled(
            "i32",
            "f32",
            converted("f", "i32", "f32"),
            constant("d", "3.0e+38", "f32"),
            "%c = stablehlo.multiply %f, %d : tensor<f32>",
        ),
    ],
)
def test_a_sum_does_not_move_past_what_may_be_infinite(case: Case) -> None:
    assert not is_proved(case)


@pytest.mark.parametrize("kind", ["floor", "ceil", "round_nearest_even"])
def test_what_is_rounded_may_be_larger(kind: str) -> None:
    factor = [
        converted("f", "i32", "f32"),
        constant("d", "1.0e-30", "f32"),
        "%e = stablehlo.multiply %f, %d : tensor<f32>",
        unary("g", kind, "e", "f32", "f32"),  # -1 or 1
        constant("h", "3.0e+37", "f32"),
        constant("i", "1.0e+15", "f32"),
        "%j = stablehlo.multiply %g, %h : tensor<f32>",
        "%c = stablehlo.multiply %j, %i : tensor<f32>",
    ]
    assert not is_proved(scaled("i32", "f32", *factor))
    assert is_proved(
        scaled("i32", "f32", *factor[:4], "%c = stablehlo.negate %g : tensor<f32>")
    )
