"""Products whose attributes tell operands or dimensions apart."""

from __future__ import annotations

import pytest

from tests.verify.modules import WHOLE, Case, function, is_proved, unary

pytestmark = pytest.mark.quick

M = "4x4xf32"
GIVEN = {"x": M, "y": M}
MANY = 3000000  # so many windows are not written out


def product(name: str, x: str, y: str, left: str, right: str) -> str:
    return f"""%{name} = stablehlo.dot_general %{x}, %{y}, contracting_dims = [0] x [0],
    algorithm = <lhs_precision_type = {left}, rhs_precision_type = {right},
      accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1,
      num_primitive_operations = 1, allow_imprecise_accumulation = false>
    : (tensor<{M}>, tensor<{M}>) -> tensor<{M}>"""


@pytest.mark.parametrize(
    ("left", "right", "proved"),
    [("bf16", "bf16", True), ("f8E5M2", "f8E4M3FN", False)],
)
def test_algorithms_that_read_operands_in_two_types_do_not_commute(
    left: str, right: str, proved: bool
) -> None:
    source = function(GIVEN, M, product("r", "x", "y", left, right))
    turn = unary("r", "transpose|, dims = [1, 0]", "s", M, M)
    local = function(GIVEN, M, product("s", "y", "x", left, right), turn)
    assert is_proved(Case(source, local, [WHOLE] * 2)) is proved
    assert is_proved(Case(source, source, [WHOLE] * 2))


def convolution(numbers: str, result: str, groups: int = 1) -> str:
    x, y = f"1x{MANY}x{MANY}x2xf32", f"2x2x{2 // groups}x2xf32"
    body = f"""%r = stablehlo.convolution(%x, %y) dim_numbers = {numbers},
    window = {{stride = [1, 1], pad = [[1, 0], [0, 1]], rhs_dilate = [1, 1]}}
    {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
    : (tensor<{x}>, tensor<{y}>) -> tensor<{result}>"""
    return function({"x": x, "y": y}, result, body)


OTHERS = {
    "windows along the other dimension": (
        "[b, 1, 0, f]x[1, 0, i, o]->[b, 1, 0, f]",
        f"1x{MANY}x{MANY}x2xf32",
        1,
    ),
    "the result's dimensions turned": (
        "[b, 0, 1, f]x[0, 1, i, o]->[b, 1, 0, f]",
        f"1x{MANY}x{MANY}x2xf32",
        1,
    ),
    "in groups": (
        "[b, 1, 0, f]x[1, 0, i, o]->[b, 1, 0, f]",
        f"1x{MANY}x{MANY}x2xf32",
        2,
    ),
}


@pytest.mark.parametrize(("numbers", "result", "groups"), OTHERS.values(), ids=OTHERS)
def test_windows_of_a_convolution_run_along_their_own_dimensions(
    numbers: str, result: str, groups: int
) -> None:
    """Padded at other ends, too, where there are too many to be written out."""
    plain = convolution("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", result, groups)
    other = convolution(numbers, result, groups)
    assert is_proved(Case(plain, plain, [WHOLE] * 2))
    assert not is_proved(Case(plain, other, [WHOLE] * 2))
