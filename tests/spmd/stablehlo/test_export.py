"""Control flow that has effects but no results is kept, with its regions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from partir.frontend.parsing import parse_module
from partir.frontend.stablehlo import import_module
from partir.ir.core import Port
from partir.mesh import Mesh
from partir.partition.core_text import core_text
from partir.partition.graph import Graph
from partir.partition.state import State
from partir.spmd.lowering.lower import lower
from partir.spmd.rewrites.table import rewrite
from partir.spmd.stablehlo.export import stablehlo_text
from partir.spmd.stablehlo.sequential import sequential_text

TEXT = """
func.func public @main(%i: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {
  "stablehlo.case"(%i) ({
    "stablehlo.custom_call"(%x) {call_target_name = "log", has_side_effect = true}
      : (tensor<8xf32>) -> ()
    "stablehlo.return"() : () -> ()
  }, {
    "stablehlo.return"() : () -> ()
  }) : (tensor<i32>) -> ()
  func.return %x : tensor<8xf32>
}
"""


def exported(state: State) -> str:
    return stablehlo_text(rewrite(lower(state, [((),)])))


@pytest.mark.quick
@pytest.mark.parametrize("text", [sequential_text, exported])
def test_case_without_results_is_kept(text: Callable[[State], str]) -> None:
    builder = import_module(parse_module(TEXT))
    assert builder.body is not None
    (index, x), (result,) = builder.body.arguments, builder.body.results
    program = builder.finish(
        [Port("i", index, 0), Port("x", x, 1)], [Port("y", result, 1)]
    )
    state = State(Graph(program), Mesh({"B": 2}))
    made = text(state)
    parse_module(made)  # MLIR's verifier counts the branches
    assert '"stablehlo.custom_call"(%arg1)' in made
    assert "custom_call(%x)" in core_text(state)
