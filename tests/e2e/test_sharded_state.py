"""State is created sharded and is never whole on any device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, assert_same

WIDTH = 512
WHOLE = WIDTH * WIDTH * 8  # bytes of the large matrix

BP = partir.ManualPartition({"x": 0}, axis="B", name="BP")
Z3 = partir.ManualPartition({"state/**": partir.FIRST_DIVISIBLE_DIM}, axis="B")
MP = partir.ManualPartition({"state/w": 1, "state/m": 1}, axis="M", name="MP")

pytestmark = pytest.mark.usefixtures("double")


def init(key: Array) -> dict[str, Array]:
    w = jax.random.normal(key, (WIDTH, WIDTH)) * 0.01
    return {"w": w, "m": jnp.zeros_like(w)}


def step(state: dict[str, Array], x: Array) -> tuple[dict[str, Array], Array]:
    def loss_fn(w: Array) -> Array:
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    loss, grad = jax.value_and_grad(loss_fn)(state["w"])
    m = 0.9 * state["m"] + grad
    return {"w": state["w"] - m, "m": m}, loss


def largest_buffer() -> int:
    """Bytes of the largest piece that any device holds."""
    return max(
        shard.data.nbytes
        for array in jax.live_arrays()
        for shard in array.addressable_shards
    )


def test_created_sharded() -> None:
    key = jax.random.key(0)
    x = np.random.default_rng(1).normal(size=(8, WIDTH))
    jitted = partir.jit(step, MESH, [BP, MP, Z3], donate_argnums=0)
    shapes: Any = jax.eval_shape(init, key)
    partitioned = jitted.partitioned(shapes, x)
    make = jax.jit(init, out_shardings=partitioned.in_shardings()[0])
    before = largest_buffer()
    assert before < WHOLE // 8

    state = make(key)
    for _ in range(2):
        state, _ = jitted(state, x)
        for leaf in jax.tree.leaves(state):
            sizes = {shard.data.nbytes for shard in leaf.addressable_shards}
            assert sizes == {WHOLE // 8}
        assert largest_buffer() == WHOLE // 8
    compiled = jitted.lower(shapes, x).compile()
    arguments = compiled.memory_analysis().argument_size_in_bytes
    assert arguments < WHOLE  # two matrices, an eighth of each, and the batch

    expected = jax.jit(init)(key)
    for _ in range(2):
        expected, _ = jax.jit(step)(expected, x)
    assert_same(state, expected)


def test_results_have_the_shardings_that_are_promised() -> None:
    partitioned = partir.partition(
        step,
        MESH,
        [BP, MP, Z3],
        args=(jax.eval_shape(init, jax.random.key(0)), jnp.ones((8, WIDTH))),
        donate_argnums=0,
    )
    made = jax.jit(init, out_shardings=partitioned.in_shardings()[0])(jax.random.key(0))
    state, loss = partitioned.compile()(made, jnp.ones((8, WIDTH)))
    wanted, wanted_loss = partitioned.out_shardings()
    assert jax.tree.map(lambda a: a.sharding, state) == wanted
    assert loss.sharding == wanted_loss
    assert partitioned.out_specs == (
        {"w": jax.P("B", "M"), "m": jax.P("B", "M")},
        jax.P(),
    )
