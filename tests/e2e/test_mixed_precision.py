"""bf16 and float32: errors against float64 at most twice those of one device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from benchmarks.models import schedules, transformer
from tests.e2e.compare import MESH, QUICK, transformer_start

CONFIG = transformer.Config(
    layers=1, width=32, heads=4, head_dim=8, hidden=64, vocab=32, sequence=8, batch=8
)


def loss_and_grads(params: Any, tokens: Array, targets: Array) -> Any:
    return jax.value_and_grad(transformer.loss_fn)(params, tokens, targets)


def mixed(params: Any, tokens: Array, targets: Array) -> Any:
    """float32 parameters, computed in bf16."""
    return jax.value_and_grad(transformer.loss_fn)(
        params, tokens, targets, compute_dtype=jnp.bfloat16
    )


def error(got: Any, exact: Any) -> float:
    """Of all gradients together, against their size."""
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(exact), strict=True)
    squares = [
        (np.sum((np.asarray(g, np.float64) - e) ** 2), np.sum(np.asarray(e) ** 2))
        for g, e in pairs
    ]
    off, size = np.sum(squares, axis=0)
    return float(np.sqrt(off / size))


@pytest.fixture(scope="module")
def exact() -> Any:
    """The model's parameters and batch, and loss and gradients in 64 bits."""
    (params, _), batch = transformer_start(CONFIG)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda p: p.astype(np.float64), params)
        step = jax.jit(loss_and_grads, compiler_options=QUICK)
        made = jax.tree.map(np.asarray, step(wide, *batch))
    return params, batch, made


@pytest.mark.parametrize("step", [mixed, loss_and_grads])
def test_errors_are_those_of_one_device(exact: Any, step: Any) -> None:
    params, batch, (exact_loss, exact_grads) = exact
    Z3 = partir.ManualPartition({"params/**": schedules.matrices}, axis="B", name="Z3")
    schedule = [schedules.BP, schedules.MP, Z3]
    carry = {"out/1": "params"}
    ours = partir.jit(step, MESH, schedule, carry=carry, compiler_options=QUICK)
    alone = jax.jit(step, compiler_options=QUICK)
    alone_loss, alone_grads = alone(params, *batch)
    loss, grads = ours(params, *batch)
    assert loss.dtype == alone_loss.dtype
    assert error(grads, exact_grads) <= 2 * error(alone_grads, exact_grads)
    # One number may be right by chance: allow it what rounding once would leave.
    rounding = abs(exact_loss) * float(jnp.finfo(loss.dtype).eps)
    alone_off = abs(float(alone_loss) - exact_loss)
    assert abs(float(loss) - exact_loss) <= 2 * max(alone_off, rounding)


def test_a_bf16_training_step() -> None:
    """Parameters and state in bf16: they come back so, and the loss falls."""
    config = transformer.Config(**{**CONFIG.__dict__, "dtype": "bfloat16"})
    (params, opt_state), batch = transformer_start(config)
    step = partir.jit(
        transformer.train_step,
        MESH,
        schedules.SCHEDULES["BP+MP+Z3"],
        donate_argnums=(0, 1),
        compiler_options=QUICK,
    )
    losses = []
    for _ in range(3):
        params, opt_state, loss = step(params, opt_state, *batch)
        losses.append(float(loss))
    assert {p.dtype for p in jax.tree.leaves(params)} == {jnp.dtype("bfloat16")}
    assert losses[2] < losses[0]
