"""What devices say of indices, where the source says so under a condition."""

from __future__ import annotations

import pytest

from tests.verify.elements.test_wrong import binary, whole
from tests.verify.modules import constant, is_proved


def looked_up(name: str, said: str) -> str:
    return f"""%{name} = "stablehlo.gather"(%x, %i) {{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>, indices_are_sorted = {said}
    }} : (tensor<8xf32>, tensor<3x1xi32>) -> tensor<3xf32>"""


IN_TURN = """%one = stablehlo.constant dense<true> : tensor<i1>
  %not = stablehlo.constant dense<false> : tensor<i1>
  %z = stablehlo.slice %x [0:3] : (tensor<8xf32>) -> tensor<3xf32>
  %w:2 = "stablehlo.while"(%p, %z) ({{
  ^bb0(%go: tensor<i1>, %v: tensor<3xf32>):
    stablehlo.return %go : tensor<i1>
  }}, {{
  ^bb0(%go: tensor<i1>, %v: tensor<3xf32>):
    {}
    stablehlo.return %not, %a : tensor<i1>, tensor<3xf32>
  }}) : (tensor<i1>, tensor<3xf32>) -> (tensor<i1>, tensor<3xf32>)
  {}
  %r = stablehlo.add %w#1, %b : tensor<3xf32>"""
EITHER = """%v = "stablehlo.if"(%p) ({{
    {}
    stablehlo.return %a : tensor<3xf32>
  }}, {{
    %c = stablehlo.slice %x [0:3] : (tensor<8xf32>) -> tensor<3xf32>
    stablehlo.return %c : tensor<3xf32>
  }}) : (tensor<i1>) -> tensor<3xf32>
  {}
  %r = stablehlo.add %v, %b : tensor<3xf32>"""


@pytest.mark.parametrize("text", [IN_TURN, EITHER], ids=["loop", "branch"])
def test_what_is_said_where_nobody_knows_that_it_is_run_is_not_believed(
    text: str,
) -> None:
    """Devices may not say so of what is run in any case."""
    given = {"p": "i1", "x": "8xf32", "i": "3x1xi32"}

    def lines(inside: str, beside: str, *ends: str) -> list[str]:
        body = text.format(looked_up("a", inside), looked_up("b", beside))
        return [body.replace("%r = stablehlo.add", "%s = stablehlo.add"), *ends]

    one = binary("r", "add", "s", "s", "3xf32")
    other = [constant("k", "2.0", "3xf32"), binary("r", "multiply", "s", "k", "3xf32")]
    source = lines("true", "false", one)
    for inside, beside in (("true", "false"), ("false", "false"), ("false", "true")):
        case = whole(given, "3xf32", source, lines(inside, beside, *other))
        assert is_proved(case) is (beside == "false")
