"""A call with effects may give another result each time."""

from __future__ import annotations

import pytest

from tests.verify.modules import WHOLE, Case, function, is_proved

pytestmark = pytest.mark.quick


def called(name: str, effects: bool, target: str = "draw") -> str:
    return f"""%{name} = "stablehlo.custom_call"(%x) {{call_target_name = "{target}",
    has_side_effect = {str(effects).lower()}, api_version = 1 : i32,
    backend_config = ""}} : (tensor<4xf32>) -> tensor<4xf32>"""


@pytest.mark.parametrize(
    ("effects", "operands", "right"),
    [
        (True, "%a, %b", True),
        (True, "%a, %a", False),
        (True, "%b, %b", False),
        (True, "%b, %a", False),
        (False, "%a, %a", True),
    ],
)
def test_the_second_of_two_calls(effects: bool, operands: str, right: bool) -> None:
    def less(taken: str) -> str:
        calls = (called("a", effects), called("b", effects))
        made = f"%r = stablehlo.subtract {taken} : tensor<4xf32>"
        return function({"x": "4xf32"}, "4xf32", *calls, made)

    assert is_proved(Case(less("%a, %b"), less(operands), [WHOLE])) is right


def test_calls_of_others_are_not_counted() -> None:
    made = "%r = stablehlo.negate %b : tensor<4xf32>"
    source = function({"x": "4xf32"}, "4xf32", called("b", True), made)
    first = called("a", True, "log")
    local = function({"x": "4xf32"}, "4xf32", first, called("b", True), made)
    assert is_proved(Case(source, local, [WHOLE]))
