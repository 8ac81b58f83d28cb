"""Training, evaluation and inference agree on where the parameters lie."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, assert_same

BP = partir.ManualPartition({"x": 0, partir.optional("y"): 0}, axis="B", name="BP")
MP = partir.ManualPartition({"params/w1": 1}, axis="M", name="MP")
Z3 = partir.ManualPartition(
    {
        "params/w*": partir.FIRST_DIVISIBLE_DIM,
        partir.optional("momentum/w*"): partir.FIRST_DIVISIBLE_DIM,
    },
    axis="B",
    name="Z3",
)
SCHEDULE = [BP, MP, Z3]

pytestmark = pytest.mark.usefixtures("double")


def forward(params: dict[str, Array], x: Array) -> Array:
    return jnp.tanh(x @ params["w1"] + params["b1"]) @ params["w2"]


def evaluate(params: dict[str, Array], x: Array, y: Array) -> Array:
    return jnp.mean((forward(params, x) - y) ** 2)


def train(params: Any, momentum: Any, x: Array, y: Array) -> Any:
    loss, grads = jax.value_and_grad(evaluate)(params, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum)
    return params, momentum, loss


@pytest.fixture(scope="module")
def trained(double: None) -> Any:
    """Parameters after a step, sharded and on one device, and the batch."""
    keys = jax.random.split(jax.random.key(0), 4)
    w1, w2, x, y = (jax.random.normal(key, (16, 16)) for key in keys)
    params = {"w1": w1, "b1": jnp.ones(16), "w2": w2}
    momentum = jax.tree.map(jnp.zeros_like, params)
    alone = jax.jit(train)(params, momentum, x, y)[0]
    step = partir.jit(train, MESH, SCHEDULE, donate_argnums=(0, 1))
    partitioned = step.partitioned(params, momentum, x, y)
    ours = step(*partitioned.shard(params, momentum), x, y)[0]
    return partitioned, ours, alone, x, y


def test_one_schedule_for_all(trained: Any) -> None:
    partitioned, ours, alone, x, y = trained
    score = partir.jit(evaluate, MESH, SCHEDULE)
    infer = partir.jit(forward, MESH, SCHEDULE)
    layout = partitioned.in_specs[0]
    assert score.partitioned(ours, x, y).in_specs[0] == layout
    assert infer.partitioned(ours, x).in_specs[0] == layout
    assert_same(score(ours, x, y), jax.jit(evaluate)(alone, x, y))
    assert_same(infer(ours, x), jax.jit(forward)(alone, x))


def test_layout_taken_over(trained: Any) -> None:
    partitioned, ours, alone, x, _ = trained
    taken = partitioned.input_schedule("params/**")
    infer = partir.jit(forward, MESH, [taken])
    assert infer.partitioned(ours, x).in_specs[0] == partitioned.in_specs[0]
    assert_same(infer(ours, x), jax.jit(forward)(alone, x))


def test_another_layout_is_refused_by_name(trained: Any) -> None:
    _, ours, _, x, _ = trained
    with pytest.raises(partir.PartitionError, match=r'"params/b1".*Partitioned.shard'):
        partir.jit(forward, MESH, [BP])(ours, x)
