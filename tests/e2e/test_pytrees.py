"""Dataclasses, named tuples and dicts as arguments and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, assert_same, assert_steps_agree

pytestmark = pytest.mark.usefixtures("double")


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    weight: Array
    value: Array  # called as nnx calls what its variables hold


class Momentum(NamedTuple):
    count: Array
    trace: dict[str, Layer]


class Bag:
    """A node without key paths; `label` is static."""

    def __init__(self, items: Any, label: str) -> None:
        self.items, self.label = items, label


jax.tree_util.register_pytree_node(
    Bag, lambda bag: (bag.items, bag.label), lambda label, items: Bag(items, label)
)


def loss_fn(layers: dict[str, Layer], x: Array) -> Array:
    for name in sorted(layers):
        x = jnp.tanh(x @ layers[name].weight + layers[name].value)
    return jnp.sum(x**2)


def train_step(state: Any, x: Array) -> Any:
    layers, momentum = state
    loss, grads = jax.value_and_grad(loss_fn)(layers, x)
    trace = jax.tree.map(lambda t, g: 0.9 * t + g, momentum.trace, grads)
    layers = jax.tree.map(lambda p, t: p - 0.1 * t, layers, trace)
    return (layers, Momentum(momentum.count + 1, trace)), {"loss": loss, "none": None}


def make() -> tuple[Any, Array]:
    keys = jax.random.split(jax.random.key(0), 3)
    layers = {
        name: Layer(jax.random.normal(key, (16, 16)) / 4, jnp.zeros(16))
        for name, key in zip(("a", "b"), keys, strict=False)
    }
    momentum = Momentum(jnp.zeros((), int), jax.tree.map(jnp.zeros_like, layers))
    return (layers, momentum), jax.random.normal(keys[2], (8, 16))


def test_two_steps() -> None:
    BP = partir.ManualPartition({"x": 0}, axis="B", name="BP")
    MP = partir.ManualPartition({"state/0/a/weight": 1}, axis="M", name="MP")
    state, x = make()
    step = partir.jit(train_step, MESH, [BP, MP], donate_argnums=0)
    names = [p.name for p in step.partitioned(state, x).program.arguments]
    assert "state/0/a/value" in names
    assert "state/1/trace/b/weight" in names
    last = assert_steps_agree(train_step, step, state, x)
    assert isinstance(last[0]["a"], Layer)
    assert isinstance(last[1], Momentum)


def test_node_without_key_paths() -> None:
    rows = partir.ManualPartition({"bag/0": 0}, axis="B", name="rows")
    double = partir.jit(
        lambda bag: Bag([2 * item for item in bag.items], bag.label), MESH, [rows]
    )
    bag = Bag([jnp.arange(8.0), jnp.ones(3)], "label")
    made = double(bag)
    assert made.label == "label"
    assert_same(list(made.items), [2 * item for item in bag.items])


def test_two_leaves_with_one_name_are_refused() -> None:
    tree = {"a/b": {"c": jnp.ones(8)}, "a": {"b/c": jnp.ones(8)}}
    with pytest.raises(partir.PartitionError, match=r'"tree/a/b/c": .*Rename'):
        partir.partition(lambda tree: tree, MESH, [], args=(tree,))
