"""Padding that is a number of what is padded: the same as any number around it."""

from __future__ import annotations

import jax
import pytest
from jax import lax

import partir
from partir.verify import prove

pytestmark = pytest.mark.quick


def padded(x: jax.Array) -> jax.Array:
    return lax.pad(x, x[2, 3], ((1, -1, 0), (2, 2, 0)))


@pytest.mark.parametrize("dim", [0, 1])
def test_a_number_of_a_tensor_around_it(dim: int) -> None:
    x = jax.ShapeDtypeStruct((8, 4), "float32")
    tactic = partir.ManualPartition({}, "B", outputs={"out": dim})
    p = partir.partition(padded, {"B": 2}, [tactic], args=(x,))
    text, (ins, outs) = p.stablehlo(), (p.spmd.in_tilings, p.spmd.out_tilings)
    assert not p.proof().not_proved
    another_row = (
        ("limit_indices = array<i64: 3", 4),
        ("start_indices = array<i64: 2", 3),
    )
    for before, row in another_row:
        assert before in text
        text = text.replace(before, f"{before[:-1]}{row}", 1)
    wrong = prove(p.program, text, p.mesh, ins, outs)
    assert not wrong.proved
