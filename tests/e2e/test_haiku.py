"""haiku: parameters and state by module path, whose names hold slashes."""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import optax
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, QUICK, assert_steps_agree

BP = partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"state/params/mlp/~/linear_0/w": 1}, axis="M", name="MP")
OPTIMIZER = optax.adam(1e-2)

pytestmark = pytest.mark.usefixtures("double")


def forward(x: Array) -> Array:
    x = hk.BatchNorm(True, True, 0.9)(x, is_training=True)
    return hk.nets.MLP([32, 16], name="mlp")(
        x, dropout_rate=0.25, rng=hk.next_rng_key()
    )


@pytest.mark.quick
def test_two_steps() -> None:
    net = hk.transform_with_state(forward)
    x, y = jax.random.normal(jax.random.key(0), (2, 16, 16))
    params, averages = net.init(jax.random.key(1), x)
    state = {
        "params": params,
        "averages": averages,
        "opt_state": OPTIMIZER.init(params),
        "rng": jax.random.PRNGKey(2),
    }

    def step(state: Any, x: Array, y: Array) -> tuple[Any, Array]:
        rng, key = jax.random.split(state["rng"])

        def loss_fn(params: Any) -> tuple[Array, Any]:
            out, averages = net.apply(params, state["averages"], key, x)
            return jnp.mean((out - y) ** 2), averages

        grad = jax.value_and_grad(loss_fn, has_aux=True)
        (loss, averages), grads = grad(state["params"])
        updates, opt_state = OPTIMIZER.update(grads, state["opt_state"])
        params = optax.apply_updates(state["params"], updates)
        new = {
            "params": params,
            "averages": averages,
            "opt_state": opt_state,
            "rng": rng,
        }
        return new, loss

    jitted = partir.jit(step, MESH, [BP, MP], donate_argnums=0, compiler_options=QUICK)
    last = assert_steps_agree(step, jitted, state, x, y)
    assert last["params"]["mlp/~/linear_0"]["w"].sharding.spec == jax.P(None, "M")
