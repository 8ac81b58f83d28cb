"""Small programs, element by element: wrong ones that look right are not proved."""

from __future__ import annotations

import pytest

from tests.verify.modules import (
    Case,
    constant,
    function,
    is_proved,
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
