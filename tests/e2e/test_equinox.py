"""equinox: modules hold functions as leaves, which are static."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, QUICK, assert_same, assert_steps_agree

BP = partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP")
MP = partir.ManualPartition(
    {"state/model/layers/0/weight": 0, "state/model/layers/0/bias": 0},
    axis="M",
    name="MP",
)
OPTIMIZER = optax.adam(1e-2)

pytestmark = pytest.mark.usefixtures("double")


def make(activation: Any = jax.nn.softplus) -> tuple[Any, Array, Array]:
    model = eqx.nn.MLP(
        16, 16, 32, 1, activation, key=jax.random.key(0), dtype=jnp.float64
    )
    opt_state = OPTIMIZER.init(eqx.filter(model, eqx.is_array))
    x, y = jax.random.normal(jax.random.key(1), (2, 16, 16))
    return {"model": model, "opt_state": opt_state}, x, y


def train_step(state: Any, x: Array, y: Array) -> tuple[Any, Array]:
    @eqx.filter_value_and_grad
    def loss_fn(model: Any) -> Array:
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    loss, grads = loss_fn(state["model"])
    updates, opt_state = OPTIMIZER.update(grads, state["opt_state"])
    model = eqx.apply_updates(state["model"], updates)
    return {"model": model, "opt_state": opt_state}, loss


@pytest.mark.quick
def test_two_steps() -> None:
    state, x, y = make()
    traced = []

    def counted(state: Any, x: Array, y: Array) -> Any:
        traced.append(1)
        return train_step(state, x, y)

    step = partir.jit(counted, MESH, [BP, MP], donate_argnums=0, compiler_options=QUICK)
    one_device = eqx.filter_jit(train_step)
    ours, theirs = (
        jax.tree.map(lambda a: a.copy() if eqx.is_array(a) else a, state),
        state,
    )
    for _ in range(2):
        ours, loss = step(ours, x, y)
        theirs, expected = one_device(theirs, x, y)
        assert_same((ours, loss), (theirs, expected))
    assert isinstance(ours["model"], eqx.nn.MLP)
    assert ours["model"].activation is state["model"].activation
    assert ours["model"].layers[0].weight.sharding.spec == jax.P("M")
    assert len(traced) == 1
    in_specs = step.partitioned(state, x, y).in_specs
    assert in_specs[0]["model"].activation is None


def test_another_activation_is_another_signature() -> None:
    step = partir.jit(
        lambda model, x: jax.vmap(model)(x),
        MESH,
        [partir.ManualPartition({"x": 0}, axis="B", name="BP")],
    )
    for activation in (jax.nn.softplus, jnp.sin, jax.nn.softplus):
        state, x, _ = make(activation)
        assert_same(step(state["model"], x), jax.vmap(state["model"])(x))
    assert len(step._compiled) == 2


class Looped(eqx.Module):
    """Numbers that Python reads while tracing, and one array."""

    weight: Array
    repeat: int
    residual: bool
    scale: float

    def __call__(self, x: Array) -> Array:
        for _ in range(self.repeat):
            x = self.scale * (x @ self.weight) + (x if self.residual else 0)
        return x


def test_numbers_in_a_module_are_static() -> None:
    weight, x = jax.random.normal(jax.random.key(0), (2, 8, 8))
    rows = partir.ManualPartition({"x": 0, "model/weight": 1}, axis="B", name="rows")

    def step(model: Any, x: Array, rate: Any) -> Any:
        return eqx.tree_at(lambda m: m.weight, model, rate * model.weight), model(x)

    ours = partir.jit(step, MESH, [rows])
    for repeat, residual in ((2, True), (3, True), (3, False), (2, True)):
        model = Looped(weight, repeat, residual, 0.5)
        for rate in (0.5, 2.0):  # an argument's own number is traced, as in jax.jit
            want = eqx.filter_jit(step)(model, x, jnp.asarray(rate))
            assert_same(ours(model, x, rate), want)
    assert len(ours._compiled) == 3


def test_method_of_a_module() -> None:
    class Scaled(eqx.Module):
        scale: Array

        @partir.jit(
            mesh=MESH,
            schedule=[partir.ManualPartition({"x": 0, "self/scale": 0}, axis="B")],
        )
        def __call__(self, x: Array) -> Array:
            return x * self.scale

    scale, x = jax.random.normal(jax.random.key(0), (2, 8))
    assert_same(Scaled(scale)(x), scale * x)


def test_steps_without_donation() -> None:
    state, x, y = make()
    arrays, rest = eqx.partition(state, eqx.is_array)

    def step(arrays: Any, x: Array, y: Array) -> Any:
        state, loss = train_step(eqx.combine(arrays, rest), x, y)
        return eqx.filter(state, eqx.is_array), loss

    MP = partir.ManualPartition({"arrays/model/layers/0/*": 0}, axis="M", name="MP")
    jitted = partir.jit(
        step, MESH, [BP, MP], carry={"out/0": "arrays"}, compiler_options=QUICK
    )
    assert_steps_agree(step, jitted, arrays, x, y)
