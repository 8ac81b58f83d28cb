"""Branches that are known before the program runs stand in the place of their case."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from partir.frontend.branches import taken_branch
from tests.normal.forms import kinds, normal

pytestmark = pytest.mark.quick


X = np.arange(6, dtype=np.float32)


def on_platforms(x: Array) -> Array:
    other = lax.platform_dependent(x, tpu=jnp.sin, default=jnp.cos)
    return lax.platform_dependent(other, cpu=jnp.exp, default=jnp.sin) + x


@pytest.mark.identity("taken")
@pytest.mark.parametrize(
    ("function", "made"),
    [
        (on_platforms, {"cosine": 1, "exponential": 1, "add": 1}),
        (lambda x: lax.cond(True, jnp.exp, jnp.sin, x), {"exponential": 1}),
        (lambda x: lax.cond(False, jnp.exp, jnp.sin, x), {"sine": 1}),
        (lambda x: lax.cond(False, jnp.exp, lambda x: x, x), {}),
    ],
)
def test_known(function: Callable[[Array], Array], made: dict[str, int]) -> None:
    program = partir.trace(function, X)
    assert kinds(program) == made
    assert not program.ties
    got = partir.jit(function, {"X": 2}, [partir.ManualPartition({"x": 0}, axis="X")])
    np.testing.assert_allclose(got(X), jax.jit(function)(X), rtol=1e-6)


def test_unknown() -> None:
    program = normal(lambda x, i: lax.switch(i, [jnp.exp, jnp.sin], x), X, np.int32(1))
    assert kinds(program)["case"] == 1


@pytest.mark.identity("taken")
def test_numbers_that_are_no_branch_take_the_last() -> None:
    def taken(number: str | None, count: int = 3) -> int | None:
        return taken_branch("stablehlo.case", number, count)

    assert [taken(n) for n in ("0", "2", "3", "-1")] == [0, 2, 2, 2]
    assert taken(None) is None
    assert taken(None, count=1) == 0
    assert taken_branch("stablehlo.if", "true", 2) == 0
    assert taken_branch("stablehlo.if", None, 2) is None
