"""Values put side by side one after another, their other dimensions in any order."""

from __future__ import annotations

import pytest

from tests.verify.modules import Case, function, is_proved, unary

pytestmark = pytest.mark.quick

SHAPES = {name: "2x4x4xf64" for name in "xyz"}


def turned(name: str, operand: str, rows: int = 2) -> str:
    type_ = f"{rows}x4x4xf64"
    return unary(name, "transpose|, dims = [0, 2, 1]", operand, type_, type_)


def joined(name: str, *operands: tuple[str, int]) -> str:
    names = ", ".join(f"%{operand}" for operand, _ in operands)
    types = ", ".join(f"tensor<{rows}x4x4xf64>" for _, rows in operands)
    total = sum(rows for _, rows in operands)
    return (
        f"%{name} = stablehlo.concatenate {names}, dim = 0"
        f" : ({types}) -> tensor<{total}x4x4xf64>"
    )


def in_turn(*body: str) -> Case:
    """All three at once, the second turned; devices put them together in turn."""
    all_three = joined("r", ("x", 2), ("t", 2), ("z", 2))
    source = function(SHAPES, "6x4x4xf64", turned("t", "y"), all_three)
    return Case(source, function(SHAPES, "6x4x4xf64", *body), [(), (), ()])


def two(first: str, second: str, behind: str = "x") -> tuple[str, str]:
    """Two of them, and these behind another one."""
    pair = joined("two", (first, 2), (second, 2))
    return pair, joined("r", (behind, 2), ("two", 4))


RIGHT = {
    "the last two first": in_turn(turned("t", "y"), *two("t", "z")),
    "the first two first": in_turn(
        turned("t", "y"),
        joined("two", ("x", 2), ("t", 2)),
        joined("r", ("two", 4), ("z", 2)),
    ),
    "turned together": in_turn(
        turned("u", "z"),
        joined("two", ("y", 2), ("u", 2)),
        turned("back", "two", 4),
        joined("r", ("x", 2), ("back", 4)),
    ),
}

WRONG = {
    "not turned": in_turn(*two("y", "z")),
    "the other turned": in_turn(turned("t", "z"), *two("y", "t")),
    "both turned": in_turn(turned("t", "y"), turned("u", "z"), *two("t", "u")),
    "the first turned": in_turn(
        turned("t", "y"), turned("u", "x"), *two("t", "z", behind="u")
    ),
    "another order": in_turn(turned("t", "y"), *two("z", "t")),
    "turned too often": in_turn(
        turned("t", "y"),
        joined("two", ("t", 2), ("z", 2)),
        turned("back", "two", 4),
        joined("r", ("x", 2), ("back", 4)),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_side_by_side_in_turn(name: str) -> None:
    assert is_proved(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_turned_otherwise(name: str) -> None:
    assert not is_proved(WRONG[name])
