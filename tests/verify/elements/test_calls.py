"""Ops of which little is known, element by element: functions of rows."""

from __future__ import annotations

import pytest

from tests.verify.elements.test_written_out import is_equal
from tests.verify.modules import CHANNEL, Case, function

ROWS = (("B",),)


def root(name: str, operand: str, rows: int, lower: str = "true") -> str:
    return (
        f"%{name} = stablehlo.cholesky %{operand}, lower = {lower}"
        f" : tensor<{rows}x2x2xf32>"
    )


def call(
    name: str, operand: str, rows: int, target: str = "LuDecomposition", more: str = ""
) -> str:
    type_ = f"tensor<{rows}x2x2xf32>"
    return (
        f"%{name} = stablehlo.custom_call @{target}(%{operand}) {{{more}}}"
        f" : ({type_}) -> {type_}"
    )


def turned(name: str, operand: str, rows: int, order: str) -> str:
    type_ = f"tensor<{rows}x2x2xf32>"
    return (
        f"%{name} = stablehlo.transpose %{operand}, dims = {order}"
        f" : ({type_}) -> {type_}"
    )


def gathered(name: str, operand: str) -> str:
    return f"""%{name} = "stablehlo.all_gather"(%{operand}) {{all_gather_dim = 0 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL},
    use_global_device_ids}} : (tensor<2x2x2xf32>) -> tensor<4x2x2xf32>"""


def case(source: list[str], local: list[str], made: str = "2x2x2xf32") -> Case:
    return Case(
        function({"x": "4x2x2xf32"}, "4x2x2xf32", *source),
        function({"x": "2x2x2xf32"}, made, *local),
        [ROWS],
        ROWS if made.startswith("2") else (),
    )


WIDE = "4x2x2xf32"
RIGHT = {
    "rows of a root": case([root("r", "x", 4)], [root("r", "x", 2)]),
    "rows of a call": case([call("r", "x", 4)], [call("r", "x", 2)]),
    "any call of all": case(
        [call("r", "x", 4, "foo")],
        [gathered("all", "x"), call("r", "all", 4, "foo")],
        WIDE,
    ),
}
WRONG = {
    "the other half": case([root("r", "x", 4)], [root("r", "x", 2, "false")]),
    "of what is turned round": case(
        [root("r", "x", 4)], [turned("t", "x", 2, "[0, 2, 1]"), root("r", "t", 2)]
    ),
    "of other rows": case(
        [call("r", "x", 4)], [turned("t", "x", 2, "[1, 0, 2]"), call("r", "t", 2)]
    ),
    "another function": case([call("r", "x", 4)], [call("r", "x", 2, "Qr")]),
    "another attribute": case(
        [call("r", "x", 4)], [call("r", "x", 2, more="some = 1 : i64")]
    ),
    "a call of each part": case(
        [call("r", "x", 4, "foo")],
        [call("part", "x", 2, "foo"), gathered("r", "part")],
        WIDE,
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_calls_are_equal(name: str) -> None:
    assert is_equal(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_not(name: str) -> None:
    assert not is_equal(WRONG[name])
