"""A partitioned function inside jax's own: jit, lower, grad, vmap and others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, assert_same

ROWS = partir.ManualPartition({"x": 0}, axis="B", name="rows")

pytestmark = pytest.mark.usefixtures("double")


def loss(x: Array, scale: float = 2.0) -> Array:
    return jnp.sum(jnp.sin(x) * scale)


@pytest.fixture(params=[False, True], ids=["cold", "warm"])
def step(request: pytest.FixtureRequest) -> Any:
    """The function before and after its first call, with an option of XLA's."""
    options = {"xla_backend_optimization_level": 0}
    made = partir.jit(loss, MESH, [ROWS], compiler_options=options)
    if request.param:
        made(X())
    return made


def X() -> Array:
    return jnp.arange(16.0).reshape(8, 2)


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (jax.grad, "grad"),
        (jax.value_and_grad, "grad"),
        (jax.jacfwd, "grad"),
        (lambda fn: lambda x: jax.jvp(fn, (x,), (x,)), "grad"),
        (lambda fn: lambda x: jax.vmap(fn)(jnp.stack([x, x])), "vmap"),
        (lambda fn: jax.jit(jax.grad(fn)), "grad"),
    ],
)
def test_transformations_are_refused(step: Any, transform: Any, name: str) -> None:
    message = rf"jax\.{name} of a partitioned.*partir\.jit\(jax\.{name}\(fn\)"
    with pytest.raises(partir.PartitionError, match=message):
        transform(step)(X())


def test_inside_jit(step: Any) -> None:
    @jax.jit
    def outer(x: Array) -> Array:
        return step(jnp.cos(x)) + 1

    expected = jax.jit(lambda x: loss(jnp.cos(x)) + 1)(X())
    with pytest.warns(UserWarning, match=r"outermost jit: compiler_options=\{'xla"):
        assert_same(outer(X()), expected)
    plain = partir.jit(loss, MESH, [ROWS])
    assert_same(jax.jit(lambda x: plain(jnp.cos(x)) + 1)(X()), expected)
    assert jax.eval_shape(plain, X()).shape == ()


def test_gradient_partitioned() -> None:
    grad = partir.jit(jax.grad(loss), MESH, [ROWS])
    assert_same(grad(X()), jax.jit(jax.grad(loss))(X()))


def test_ahead_of_time(step: Any) -> None:
    lowered = step.lower(jax.ShapeDtypeStruct((8, 2), jnp.float64))
    assert "all_reduce" in lowered.as_text()
    compiled = lowered.compile()
    assert "all-reduce" in compiled.as_text()
    assert compiled.memory_analysis().argument_size_in_bytes > 0
    expected = jax.jit(loss)(X())
    assert_same(compiled(X()), expected)
    assert_same(compiled(step.partitioned(X()).shard(X())), expected)
    with pytest.raises(partir.PartitionError, match=r"float64\[4,2\]"):
        compiled(X()[:4])


def test_ahead_of_time_without_static_arguments() -> None:
    """As in jax, they are in the program already."""
    step = partir.jit(lambda n, x: x * n, MESH, [ROWS], static_argnums=0)
    assert_same(step.lower(3, X()).compile()(X()), X() * 3)


@pytest.mark.filterwarnings("ignore:.*donated buffers")
def test_debugging_settings(step: Any) -> None:
    with jax.debug_nans(True):
        assert_same(step(X()), jax.jit(loss)(X()))
        with pytest.raises(FloatingPointError, match="nan"):
            step(X() * jnp.inf)
