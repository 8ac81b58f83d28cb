"""flax nnx: a module and its optimizer, split before the step and merged inside."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx
from jax import Array

import partir
from tests.e2e.compare import MESH, QUICK, assert_same, assert_steps_agree

BP = partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"state/model/up/kernel": 1}, axis="M", name="MP")

pytestmark = pytest.mark.usefixtures("double")


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        f64 = jnp.float64
        self.up = nnx.Linear(16, 32, use_bias=False, param_dtype=f64, rngs=rngs)
        self.norm = nnx.BatchNorm(32, param_dtype=f64, rngs=rngs)
        self.norm.mean = nnx.BatchStat(jnp.zeros(32))  # param_dtype is not for these
        self.norm.var = nnx.BatchStat(jnp.ones(32))
        self.drop = nnx.Dropout(0.25, rngs=rngs)
        self.down = nnx.Linear(32, 16, param_dtype=f64, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        return self.down(self.drop(nnx.relu(self.norm(self.up(x)))))


def loss_fn(model: Net, x: Array, y: Array) -> Array:
    return jnp.mean((model(x) - y) ** 2)


def train(model: Net, optimizer: nnx.Optimizer, x: Array, y: Array) -> Array:
    """The step as nnx users write it: everything changes in place."""
    loss, grads = nnx.value_and_grad(loss_fn)(model, x, y)
    optimizer.update(model, grads)
    return loss


def make() -> tuple[Net, nnx.Optimizer, Array, Array]:
    model = Net(nnx.Rngs(0, dropout=1))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    x, y = jax.random.normal(jax.random.key(2), (2, 16, 16))
    return model, optimizer, x, y


@pytest.mark.quick
def test_split_and_merge() -> None:
    model, optimizer, x, y = make()
    graphdef, state = nnx.split({"model": model, "optimizer": optimizer})

    def step(state: Any, x: Array, y: Array) -> tuple[Any, Array]:
        both = nnx.merge(graphdef, state)
        loss = train(both["model"], both["optimizer"], x, y)
        return nnx.state(both), loss

    jitted = partir.jit(step, MESH, [BP, MP], donate_argnums=0, compiler_options=QUICK)
    names = [p.name for p in jitted.partitioned(state, x, y).program.arguments]
    assert "state/model/up/kernel" in names
    assert "state/optimizer/opt_state/0/mu/up/kernel" in names
    assert not any(name.endswith("value") for name in names)
    before = nnx.to_pure_dict(jax.tree.map(jnp.copy, state))

    last = assert_steps_agree(step, jitted, state, x, y)
    nnx.update({"model": model, "optimizer": optimizer}, last)
    assert model.drop.rngs.count[...] == before["model"]["drop"]["rngs"]["count"] + 2
    assert optimizer.step[...] == 2
    assert jnp.any(model.norm.mean[...] != before["model"]["norm"]["mean"])

    # The same two steps by nnx.jit, in place.
    other, other_optimizer, x, y = make()
    for _ in range(2):
        nnx.jit(train)(other, other_optimizer, x, y)
    assert_same(nnx.state(model), nnx.state(other))


@pytest.mark.parametrize("which", ["model", "optimizer", "rngs", "inside a dict"])
def test_mutable_objects_are_refused(which: str) -> None:
    model, optimizer, x, _ = make()
    given: Any = {
        "model": model,
        "optimizer": optimizer,
        "rngs": nnx.Rngs(0),
        "inside a dict": {"net": [model]},
    }[which]

    def step(state: Any, x: Array) -> Array:
        return x

    message = r"(?s)changes in place.*nnx\.split\(state\).*nnx\.merge\(graphdef"
    with pytest.raises(partir.PartitionError, match=message):
        partir.jit(step, MESH, [BP])(given, x)
    with pytest.raises(partir.PartitionError, match=message):
        partir.partition(step, MESH, [BP], kwargs={"state": given, "x": x})
