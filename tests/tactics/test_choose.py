"""`Choose`: loops for ops by their addresses."""

from __future__ import annotations

import jax
import pytest
from jax import Array, P

import partir

MESH = {"B": 4}
X = jax.ShapeDtypeStruct((8, 8), "float32")
BOTH = partir.ManualPartition({"x": 0, "w": 1}, axis="B", name="both")
PRODUCT = "%product/dot_general/0"


def product(x: Array, w: Array) -> Array:
    return x @ w


@pytest.mark.parametrize(("factor", "spec"), [(0, P("B")), (1, P(None, "B"))])
def test_an_op_whose_result_is_the_programs_own(factor: int, spec: P) -> None:
    """It has the name of that result beside its address."""
    choose = partir.Choose({PRODUCT: factor}, axis="B")
    done = partir.partition(product, MESH, [BOTH, choose], args=(X, X))
    assert not done.steps[-1].conflicts
    assert done.out_specs == spec
    again = partir.partition(product, MESH, done.schedule(), args=(X, X))
    assert again.spmd_text() == done.spmd_text()
