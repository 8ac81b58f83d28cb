"""Programs that are traced or loaded first and partitioned later."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, assert_same

pytestmark = pytest.mark.usefixtures("double")

W, X = np.random.default_rng(0).normal(size=(2, 8, 8))


def step(w: Array, x: Array) -> tuple[Array, Array]:
    loss, grad = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return w - grad, loss


def tactics(w: str, x: str) -> list[partir.ManualPartition]:
    return [
        partir.ManualPartition({x: 0}, axis="B", name="BP"),
        partir.ManualPartition({w: 1}, axis="M", name="MP"),
        partir.ManualPartition({w: partir.FIRST_DIVISIBLE_DIM}, axis="B", name="Z3"),
    ]


def test_traced() -> None:
    program = partir.trace(step, W, X)
    partitioned = partir.partition(program, MESH, tactics("w", "x"), donate_argnums=0)
    assert partitioned.in_specs == (jax.P("B", "M"), jax.P("B"))
    assert partitioned.out_specs[0] == jax.P("B", "M")
    run, w = partitioned.compile(), partitioned.shard(W)
    made = run(w, X)
    assert w.is_deleted()
    assert_same(made, jax.jit(step)(W, X))


def test_loaded() -> None:
    text = jax.jit(step).lower(W, X).as_text()
    program = partir.load(text)
    first, second = (port.name for port in program.arguments)
    partitioned = partir.partition(
        program, MESH, tactics(first, second), donate_argnums=0, carry={"out/0": first}
    )
    assert partitioned.out_specs[0] == partitioned.in_specs[0] == jax.P("B", "M")
    run, w = partitioned.compile(), partitioned.shard(W)
    made = run(w, X)
    assert isinstance(made, tuple)
    assert w.is_deleted()
    assert_same(made, jax.jit(step)(W, X))
    assert_same(run(made[0], X), jax.jit(step)(*jax.jit(step)(W, X)[:1], X))
    with pytest.raises(partir.PartitionError, match=rf'without "{second}"'):
        run(W)
    with pytest.raises(partir.PartitionError, match=r"float64\[4,8\]"):
        run(W, X[:4])


def test_what_a_program_has_already() -> None:
    program = partir.trace(step, W, X)
    for more in ({"args": (W, X)}, {"static_argnums": 0}):
        with pytest.raises(partir.PartitionError, match="has its arguments already"):
            partir.partition(program, MESH, [], **more)
    with pytest.raises(partir.PartitionError, match="donate_argnums has 2"):
        partir.partition(program, MESH, [], donate_argnums=2)
    with pytest.raises(partir.PartitionError, match='there is no result "out/7"'):
        partir.partition(program, MESH, [], carry={"out/7": "w"})
    with pytest.raises(partir.PartitionError, match='there is no argument "v"'):
        partir.partition(program, MESH, [], carry={"out/0": "v"})


def test_another_platform() -> None:
    """Traced for a TPU, which is not there; it can be looked at anyway."""
    program = partir.trace_for(
        "tpu", lambda x: jax.random.normal(x, (8,)), jax.random.key(0)
    )
    partitioned = partir.partition(program, MESH, [])
    assert partitioned.in_specs == (jax.P(),)
    assert "main" in partitioned.stablehlo()
