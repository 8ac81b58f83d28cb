"""Where slices start: ops move what is out of range, and programs may do so, too."""

from __future__ import annotations

import pytest

import partir
from partir.mesh import Mesh
from partir.verify import prove

pytestmark = pytest.mark.quick

ENDS = {
    "none": "%j = stablehlo.add %i, %z : tensor<i32>",
    "both": "%j = stablehlo.clamp %z, %i, %l : tensor<i32>",
    "upper": "%j = stablehlo.minimum %l, %i : tensor<i32>",
    "lower": "%j = stablehlo.maximum %i, %z : tensor<i32>",
    "twice": """%k = stablehlo.maximum %i, %z : tensor<i32>
      %j = stablehlo.clamp %z, %k, %l : tensor<i32>""",
}
OPS = {
    "dynamic_slice": """%r = stablehlo.dynamic_slice %x, %j, sizes = [3]
      : (tensor<8xf32>, tensor<i32>) -> tensor<3xf32>""",
    "dynamic_update_slice": """%u = stablehlo.slice %x [0:5] : (tensor<8xf32>)
        -> tensor<5xf32>
      %s = stablehlo.slice %x [5:8] : (tensor<8xf32>) -> tensor<3xf32>
      %v = stablehlo.dynamic_update_slice %x, %s, %j
        : (tensor<8xf32>, tensor<3xf32>, tensor<i32>) -> tensor<8xf32>
      %r = stablehlo.slice %v [3:6] : (tensor<8xf32>) -> tensor<3xf32>""",
}


def module(op: str, ends: str, first: int = 0, last: int = 5) -> str:
    return f"""func.func public @main(%x: tensor<8xf32>, %i: tensor<i32>)
        -> tensor<3xf32> {{
      %z = stablehlo.constant dense<{first}> : tensor<i32>
      %l = stablehlo.constant dense<{last}> : tensor<i32>
      {ENDS[ends]}
      {OPS[op]}
      return %r : tensor<3xf32> }}"""


def is_proved(source: str, local: str) -> bool:
    whole: list[list[list[str]]] = [[[]], []]
    one = Mesh({"B": 1})
    return bool(prove(partir.load(source), local, one, whole, [[[]]]).proved)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("ends", ENDS)
def test_ends_that_an_op_has_anyway_change_nothing(op: str, ends: str) -> None:
    source = module(op, "none")
    assert is_proved(source, module(op, ends))
    assert is_proved(module(op, ends), source)
    if ends != "none":
        assert is_proved(source, module(op, ends, -1, 6))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("ends", "first", "last"),
    [("both", 0, 4), ("both", 1, 5), ("upper", 0, 4), ("lower", 1, 5)],
)
def test_other_ends_do(op: str, ends: str, first: int, last: int) -> None:
    source = module(op, "none")
    assert not is_proved(source, module(op, ends, first, last))
