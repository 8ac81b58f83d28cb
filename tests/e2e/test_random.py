"""Random numbers: the same as on one device, keys typed and raw."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, QUICK, assert_same, assert_steps_agree

BP = partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"state/w1": 1}, axis="M", name="MP")
IMPLEMENTATIONS = ["threefry2x32", "rbg"]

pytestmark = pytest.mark.usefixtures("double")


def dropout_step(state: Any, x: Array, y: Array) -> tuple[Any, Array, Array]:
    """One step with dropout; the key is part of the state."""
    key, dropout_key = jax.random.split(state["key"])
    weights = {"w1": state["w1"], "w2": state["w2"]}

    def loss_fn(weights: dict[str, Array]) -> tuple[Array, Array]:
        hidden = jnp.tanh(x @ weights["w1"])
        keep = jax.random.bernoulli(dropout_key, 0.75, hidden.shape)
        hidden = jnp.where(keep, hidden / 0.75, 0)
        return jnp.mean((hidden @ weights["w2"] - y) ** 2), keep

    grad = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, keep), grads = grad(weights)
    moved = jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads)
    return {"key": key, **moved}, loss, keep


def make(key: Array) -> tuple[Any, Array, Array]:
    x, y = jax.random.normal(jax.random.key(1), (2, 16, 16))
    w1, w2 = jax.random.normal(jax.random.key(2), (2, 16, 16))
    return {"key": key, "w1": w1, "w2": w2}, x, y


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_dropout(impl: str) -> None:
    state, x, y = make(jax.random.key(0, impl=impl))
    step = partir.jit(
        dropout_step, MESH, [BP, MP], donate_argnums=0, compiler_options=QUICK
    )
    last = assert_steps_agree(dropout_step, step, state, x, y)
    assert jax.random.key_impl(last["key"]) == impl


def test_dropout_with_a_raw_key() -> None:
    state, x, y = make(jax.random.PRNGKey(0))
    step = partir.jit(
        dropout_step, MESH, [BP, MP], donate_argnums=0, compiler_options=QUICK
    )
    last = assert_steps_agree(dropout_step, step, state, x, y)
    assert last["key"].dtype == jnp.uint32


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_key_arrays_are_tiled_by_their_own_shape(impl: str) -> None:
    def draw(keys: Array) -> tuple[Array, Array, Array]:
        new = jax.vmap(jax.random.split)(keys)
        drawn = jax.vmap(lambda key: jax.random.normal(key, (6,)))(new[:, 0])
        return new[:, 1], drawn, keys

    rows = partir.ManualPartition({"keys": 0}, axis="B", name="rows")
    keys = jax.random.split(jax.random.key(0, impl=impl), 4)
    jitted = partir.jit(draw, MESH, [rows])
    partitioned = jitted.partitioned(keys)
    assert partitioned.in_specs == (jax.P("B"),)
    assert "key" in partitioned.program.arguments[0].dtype
    made = jitted(keys)
    assert_same(made, jax.jit(draw)(keys))
    assert {shard.data.shape for shard in made[2].addressable_shards} == {(1,)}
    assert_same(jitted(made[0]), jax.jit(draw)(jax.jit(draw)(keys)[0]))
    assert_same(jitted(partitioned.shard(keys)), made)


def test_a_keys_hidden_dimension_is_not_there() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    hidden = partir.ManualPartition({"keys": 1}, axis="M", name="hidden")
    with pytest.raises(partir.PartitionError, match="keys"):
        partir.partition(lambda keys: keys, MESH, [hidden], args=(keys,))


def test_a_captured_key() -> None:
    key = jax.random.key(3)
    keys = jax.random.split(key, 4)
    rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")

    def noisy(x: Array) -> Array:
        each = jax.vmap(lambda k: jax.random.uniform(k, (2,)))(keys)
        return x + jax.random.normal(key, x.shape) + each.sum()

    x = jnp.arange(16.0).reshape(8, 2)
    assert_same(partir.jit(noisy, MESH, [rows])(x), jax.jit(noisy)(x))
