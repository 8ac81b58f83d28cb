"""Complex zeros, of which one part or both may be negative, are nothing to a sum."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir
from tests.verify.test_right_and_wrong import shape

WINDOWS = ((2, 1), (1, 1), ((0, 1), (0, 0)))


def multiplied_rows(
    x: jax.Array, i: jax.Array, v: jax.Array, j: jax.Array
) -> jax.Array:
    """The sums of neighbouring rows of what is looked up in products."""
    found = x.at[i].multiply(v)[j]
    return jnp.real(lax.reduce_window(found, 0j, lax.add, *WINDOWS).sum(1))


@pytest.mark.parametrize(
    ("before", "after", "right"),
    [
        ("(-0.000000e+00,-0.000000e+00)", "(0.000000e+00,-0.000000e+00)", True),
        ("(-0.000000e+00,-0.000000e+00)", "(1.000000e+00,0.000000e+00)", False),
        ("comparison_direction EQ", "comparison_direction NE", False),
    ],
)
def test_devices_look_up_complex_numbers(before: str, after: str, right: bool) -> None:
    args = (
        shape(4, 2, dtype="complex64"),
        shape(5, dtype="int32"),
        shape(5, 2, dtype="complex64"),
        shape(3, dtype="int32"),
    )
    tactic = partir.ManualPartition({"x": 0}, "B")
    p = partir.partition(multiplied_rows, {"B": 2}, [tactic], args=args)
    text = p.stablehlo()
    assert before in text
    assert p.proof().written_out
    assert bool(p.proof(text.replace(before, after)).proved) is right
