"""Products of what is there several times: as many times as the source has it."""

from __future__ import annotations

import pytest

from tests.verify.modules import (
    Case,
    all_reduce,
    constant,
    device,
    function,
    is_proved,
    reducer,
)

MANY = 70_000  # too many to be looked at one by one


def product(name: str, operand: str, start: str, shape: str) -> str:
    """`%name`, of all elements."""
    types = f"(tensor<{shape}xui32>, tensor<ui32>) -> tensor<ui32>"
    body = reducer("multiply", "ui32")
    return f"""%{name} = "stablehlo.reduce"(%{operand}, %{start}) {body} {{
    dimensions = array<i64: 0, 1>}} : {types}"""


def repeated(count: int) -> str:
    types = f"(tensor<{MANY}xui32>) -> tensor<{count}x{MANY}xui32>"
    return f"%w = stablehlo.broadcast_in_dim %x, dims = [1] : {types}"


def case(count: int = 2, start: str = "first", made: str = "multiply") -> Case:
    """Of four copies, two on each device; what the source starts from counts once."""
    x = {"x": f"{MANY}xui32"}
    three, one = constant("three", 3, "ui32"), constant("one", 1, "ui32")
    source = function(
        x, "ui32", three, repeated(4), product("r", "w", "three", f"4x{MANY}")
    )
    local = function(
        x,
        "ui32",
        three,
        one,
        device("number0", 1),
        constant("none", 0, "i32"),
        "%is = stablehlo.compare EQ, %number0, %none : "
        "(tensor<i32>, tensor<i32>) -> tensor<i1>",
        "%first = stablehlo.select %is, %three, %one : tensor<i1>, tensor<ui32>",
        repeated(count),
        product("part", "w", start, f"{count}x{MANY}"),
        all_reduce("r", "part", made, "ui32"),
    )
    return Case(source, local, [()])


def test_copies_on_devices() -> None:
    assert is_proved(case())


@pytest.mark.parametrize(
    "wrong", [case(count=1), case(count=4), case(start="three"), case(made="add")]
)
def test_more_or_fewer_copies(wrong: Case) -> None:
    assert not is_proved(wrong)
