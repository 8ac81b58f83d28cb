"""flax linen: a TrainState with optax's Adam."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import pytest
from flax.training.train_state import TrainState
from jax import Array

import partir
from tests.e2e.compare import (
    MESH,
    QUICK,
    assert_same,
    assert_steps_agree,
    largest_shards,
)

BP = partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"state/params/up/kernel": 1}, axis="M", name="MP")
Z3 = partir.ManualPartition(
    {
        "state/params/*/kernel": partir.FIRST_DIVISIBLE_DIM,
        "state/opt_state/0/*/*/kernel": partir.FIRST_DIVISIBLE_DIM,
    },
    axis="B",
    name="Z3",
)

pytestmark = pytest.mark.usefixtures("double")


class Net(nn.Module):
    @nn.compact
    def __call__(self, x: Array) -> Array:
        x = nn.LayerNorm(param_dtype=jnp.float64)(x)
        x = nn.gelu(nn.Dense(32, param_dtype=jnp.float64, name="up")(x))
        return nn.Dense(16, param_dtype=jnp.float64, name="down")(x)


def train_step(state: TrainState, x: Array, y: Array) -> tuple[TrainState, Array]:
    def loss_fn(params: Any) -> Array:
        return jnp.mean((state.apply_fn({"params": params}, x) - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def make() -> tuple[TrainState, Array, Array]:
    x, y = jax.random.normal(jax.random.key(0), (2, 16, 16))
    net = Net()
    state = TrainState.create(
        apply_fn=net.apply,
        params=net.init(jax.random.key(1), x)["params"],
        tx=optax.adam(1e-2),
    )
    return state, x, y


@pytest.mark.quick
@pytest.mark.parametrize("donated", [(), (0,)])
def test_train_state(donated: tuple[int, ...]) -> None:
    state, x, y = make()
    carry = None if donated else {"out/0": "state"}
    step = partir.jit(
        train_step,
        MESH,
        [BP, MP, Z3],
        donate_argnums=donated,
        carry=carry,
        compiler_options=QUICK,
    )
    last = assert_steps_agree(train_step, step, state, x, y)
    assert isinstance(last, TrainState)
    assert last.tx is state.tx
    assert largest_shards(last.params)["up/kernel"] == 16 * 32 // 8
    assert last.params["up"]["kernel"].sharding.spec == jax.P("B", "M")


def test_boxed_parameters_have_plain_names() -> None:
    init = nn.with_partitioning(nn.initializers.ones_init(), (None, "M"))
    layer = nn.Dense(8, param_dtype=jnp.float64, kernel_init=init)
    x = jnp.ones((8, 4))
    params = layer.init(jax.random.key(0), x)
    columns = partir.ManualPartition({"**/kernel": 1}, axis="M", name="columns")
    apply = partir.jit(layer.apply, MESH, [columns])
    names = [port.name for port in apply.partitioned(params, x).program.arguments]
    assert names == ["variables/params/bias", "variables/params/kernel", "args/0"]
    assert_same(apply(params, x), layer.apply(params, x))


def test_annotations_with_other_axes_are_refused() -> None:
    init = nn.with_partitioning(nn.initializers.ones_init(), (None, "model"))
    layer = nn.Dense(8, param_dtype=jnp.float64, kernel_init=init)
    x = jnp.ones((8, 4))
    params = layer.init(jax.random.key(0), x)
    with pytest.raises(partir.PartitionError, match="axes that the mesh does not have"):
        partir.partition(layer.apply, MESH, [], args=(params, x))
