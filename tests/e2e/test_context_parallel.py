"""Context parallelism: the sequence is tiled, keys and values are gathered at use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from tests.e2e.compare import assert_same

LAYERS, BATCH, LENGTH, WIDTH, HEADS = 2, 2, 16, 8, 2
MESH = {"S": 8}

pytestmark = pytest.mark.usefixtures("double")


def attend(layer: dict[str, Array], x: Array) -> Array:
    """Causal attention; the mask compares one range of positions with itself."""
    q, k, v = (jnp.einsum("bsd,dhk->bhsk", x, layer[name]) for name in "qkv")
    k, v = partir.tag(k, "keys"), partir.tag(v, "values")
    scores = jnp.einsum("bhqk,bhsk->bhqs", q, k)
    place = jnp.arange(x.shape[1])
    scores = jnp.where(place[:, None] >= place, scores, -1e30)
    mixed = jnp.einsum("bhqs,bhsk->bhqk", jax.nn.softmax(scores), v)
    return jnp.einsum("bhsk,hkd->bsd", mixed, layer["o"])


def loss(params: list[dict[str, Array]], x: Array, y: Array) -> Array:
    for layer in params:
        x = x + attend(layer, x)
    return jnp.mean((x - y) ** 2)


@dataclass(frozen=True)
class ContextParallel:
    """Tile the sequence, gather keys and values where attention reads them.

    Their gradients are sums over the tiled queries that belong to tiled keys: the
    operands agree on the sum, and its result is moved to where it belongs.
    """

    name: str = "CP"

    def apply(self, partition: partir.Partition) -> None:
        partition.tile("x", 1, "S")
        partition.tile("y", 1, "S")
        for name in ("keys", "values"):
            partition.atomic(name, "S", at="uses")


def example() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    shapes = {name: (WIDTH, HEADS, WIDTH // HEADS) for name in "qkv"}
    shapes["o"] = (HEADS, WIDTH // HEADS, WIDTH)
    params = [
        {name: 0.3 * rng.normal(size=shape) for name, shape in shapes.items()}
        for _ in range(LAYERS)
    ]
    return params, *rng.normal(size=(2, BATCH, LENGTH, WIDTH))


def check(fn: Any) -> partir.Partitioned:
    args = example()
    record = partir.partition(fn, MESH, [ContextParallel()], args=args)
    assert record.in_specs[1:] == (jax.P(None, "S"), jax.P(None, "S"))
    assert jax.tree.leaves(record.in_specs[0]) == [jax.P()] * 4 * LAYERS
    for name in ("keys", "values"):
        kept = [value.tiling for value in record._partition.values(name)]
        assert kept == [((), (), ("S",), ())] * LAYERS
    assert not record.steps[-1].conflicts
    assert not record.replicated_ops
    assert_same(record.compile()(*args), jax.jit(fn)(*args))
    return record


def test_forward() -> None:
    """Keys and values once per layer, nothing for the mask, and the loss."""
    counts = check(loss).collectives
    assert counts == {
        "all_gather": 2 * LAYERS,
        "all_reduce": 1,
        "reduce_scatter": 0,
        "all_to_all": 0,
        "collective_permute": 0,
    }


def test_training() -> None:
    """Gathered again for the backward pass; their gradients are scattered."""
    counts = check(jax.value_and_grad(loss)).collectives
    assert counts == {
        "all_gather": 4 * LAYERS,
        "all_reduce": 4 * LAYERS + 1,
        "reduce_scatter": 2 * LAYERS,
        "all_to_all": 0,
        "collective_permute": 0,
    }


def test_the_gradient_does_not_decide_the_forward_pass() -> None:
    """Without a residual, keys' gradients are near: they wait for the scores."""

    def scores(params: list[dict[str, Array]], x: Array, y: Array) -> Array:
        return jnp.sum(attend(params[0], x) * y)

    params, x, y = example()
    args = (params[:1], x, y)
    fn = jax.value_and_grad(scores)
    record = partir.partition(fn, MESH, [ContextParallel()], args=args)
    assert not record.steps[-1].conflicts
    assert record.collectives["all_gather"] == 4
    assert record.collectives["all_to_all"] == 0
    assert_same(record.compile()(*args), jax.jit(fn)(*args))
