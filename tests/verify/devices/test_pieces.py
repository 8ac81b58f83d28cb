"""Values that are cut at hidden places, and put together again."""

from __future__ import annotations

import pytest

from partir.frontend.device_local import read_device_local
from partir.verify.devices.pieces import put_together
from tests.verify.modules import Case, constant, function, is_proved, unary

pytestmark = pytest.mark.quick

SOURCE = function({"x": "8xf32"}, "8xf32", unary("r", "tanh", "x", "8xf32", "8xf32"))
ROWS = (("B",),)


def local(first: int, second: int, hidden: bool = True, joined: str = "%a, %b") -> str:
    """A device's tile of four rows, cut in two and put together."""
    names = "s#0", "s#1"
    barrier = "%s:2 = stablehlo.optimization_barrier %n, %m : tensor<i32>, tensor<i32>"
    cuts = [
        f"%{made} = stablehlo.dynamic_slice %x, %{place}, sizes = [2] : "
        "(tensor<4xf32>, tensor<i32>) -> tensor<2xf32>"
        for made, place in zip("ab", names if hidden else ("n", "m"), strict=True)
    ]
    return function(
        {"x": "4xf32"},
        "4xf32",
        constant("n", first, "i32"),
        constant("m", second, "i32"),
        barrier,
        *cuts,
        f"%y = stablehlo.concatenate {joined}, dim = 0 : "
        "(tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>",
        unary("r", "tanh", "y", "4xf32", "4xf32"),
    )


def kinds(text: str) -> set[str]:
    made = put_together(read_device_local(text))
    return {made.ops[number].signature.name for number in made.walk()}


def test_pieces_in_their_order_are_the_value() -> None:
    assert is_proved(Case(SOURCE, local(0, 2), (ROWS,), ROWS))
    assert not {"concatenate", "dynamic_slice"} & kinds(local(0, 2))


@pytest.mark.parametrize("places", [(2, 0), (0, 0), (0, 1), (1, 2)])
def test_others_are_not(places: tuple[int, int]) -> None:
    assert "concatenate" in kinds(local(*places))
    assert not is_proved(Case(SOURCE, local(*places), (ROWS,), ROWS))


def test_nor_are_they_in_another_order() -> None:
    assert "concatenate" in kinds(local(0, 2, joined="%b, %a"))
    assert not is_proved(Case(SOURCE, local(0, 2, joined="%b, %a"), (ROWS,), ROWS))


def test_what_an_author_cuts_stays() -> None:
    assert "concatenate" in kinds(local(0, 2, hidden=False))
    assert is_proved(Case(SOURCE, local(0, 2, hidden=False), (ROWS,), ROWS))
