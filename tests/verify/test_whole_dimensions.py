"""Ops that read a dimension as a whole, along rows that digits can't count."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.verify import prove

pytestmark = pytest.mark.quick

X = jax.ShapeDtypeStruct((4, 4), "float32")
ONE = {"B": 1}


def padded(x: jax.Array, low: int, high: int, number: float) -> jax.Array:
    return jnp.pad(x, ((low, high), (0, 0)), constant_values=number)


ALONG: dict[str, Callable[[jax.Array], jax.Array]] = {
    "padded": lambda x: jnp.argsort(padded(x, 2, 1, 3.0), 0),
    "another number": lambda x: jnp.argsort(padded(x, 2, 1, 4.0), 0),
    "the other side": lambda x: jnp.argsort(padded(x, 1, 2, 3.0), 0),
    "reversed": lambda x: jnp.argsort(padded(x[::-1], 2, 1, 3.0), 0),
    "doubled": lambda x: jnp.argsort(jnp.concatenate([x, x[1:]]), 0),
}
MERGED: dict[str, Callable[[jax.Array], jax.Array]] = {
    "rows first": lambda x: jnp.argsort(x[::-1].reshape(-1)),
    "columns first": lambda x: jnp.argsort(x[::-1].T.reshape(-1)),
    "each thrice": lambda x: jnp.argsort(jnp.repeat(x[::-1, 0], 4)),
    "thrice in turn": lambda x: jnp.argsort(jnp.tile(x[::-1, 0], 4)),
}


@pytest.mark.parametrize("fns", [ALONG, MERGED])
def test_only_the_same_rows_in_the_same_order_are_the_same(
    fns: dict[str, Callable[[jax.Array], jax.Array]],
) -> None:
    whole = {name: partir.partition(fn, ONE, [], args=(X,)) for name, fn in fns.items()}
    for one, other in itertools.product(whole, whole):
        p, module = whole[one], whole[other].stablehlo()
        tilings = p.spmd.in_tilings, p.spmd.out_tilings
        proof = prove(p.program, module, p.mesh, *tilings)
        assert bool(proof.proved) == (one == other), (one, other)


@pytest.mark.parametrize("name", ALONG)
def test_the_other_dimension_may_be_tiled(name: str) -> None:
    tactic = partir.ManualPartition({"x": 1}, "B")
    p = partir.partition(ALONG[name], {"B": 4}, [tactic], args=(X,))
    assert not sum(p.collectives.values())
    assert not p.proof().not_proved
