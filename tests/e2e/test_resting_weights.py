"""Parameters that rest in their tiles, from the schedule to what runs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir

B4M2 = {"B": 4, "M": 2}


def loss(params: Any, x: Array) -> Array:
    return jnp.mean((jax.nn.relu(x @ params["up"]) @ params["down"]) ** 2)


def train_step(params: Any, x: Array) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - g, params, grads), value


PARAMS = {"up": np.ones((128, 512)) / 64, "down": np.ones((512, 128)) / 64}
CARRY = {"out/0": "params"}
BP = partir.ManualPartition({"x": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"params/up": 1}, axis="M", name="MP")
Z3 = partir.ManualPartition(
    {"params/*": partir.FIRST_DIVISIBLE_DIM}, axis="B", name="Z3"
)
REST = partir.Gathered({"params/*": "rest"}, axis="B")
SCHEDULE = [BP, MP, Z3, REST]


def test_a_training_step_is_proved_and_runs(x64: None) -> None:
    x = np.random.default_rng(0).normal(size=(16, 128))
    done = partir.partition(train_step, B4M2, SCHEDULE, args=(PARAMS, x), carry=CARRY)
    assert done.collectives["all_to_all"]
    before, after = (step.bytes_communicated for step in done.steps[-2:])
    assert after < before / 2
    assert done.steps[-1].work == pytest.approx(1.0, rel=1e-3)
    assert not done.verify().not_proved
    wanted = train_step(PARAMS, jnp.asarray(x))
    step = partir.jit(train_step, B4M2, SCHEDULE, carry=CARRY)
    for got, want in zip(*map(jax.tree.leaves, (step(PARAMS, x), wanted)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_it_shows_in_core_and_is_explained() -> None:
    args = PARAMS, np.random.default_rng(0).normal(size=(16, 128))
    done = partir.partition(train_step, B4M2, SCHEDULE, args=args, carry=CARRY)
    assert "fewer bytes move in these loops" in done.core_text()
    assert "where it lies: fewer bytes move so" in str(done.explain("all_to_all#0"))


def test_what_is_not_said_to_rest_is_gathered() -> None:
    args = PARAMS, np.ones((16, 128))
    up = partir.Gathered({"params/up": "rest", "params/down": "again"}, axis="B")
    tactics = [BP, MP, Z3, up, REST]
    done = partir.partition(train_step, B4M2, tactics, args=args, carry=CARRY)
    zero, one, both = (step.collectives for step in done.steps[-3:])
    assert (zero["all_gather"], zero["all_to_all"]) == (3, 0)
    assert zero["reduce_scatter"] == 2
    assert one["all_to_all"]
    assert both["all_gather"] < one["all_gather"]


def test_with_many_tokens_it_is_gathered_all_the_same() -> None:
    args = PARAMS, np.ones((4096, 128))
    done = partir.partition(train_step, B4M2, SCHEDULE, args=args, carry=CARRY)
    before, after = (step.collectives for step in done.steps[-2:])
    assert before == after


def test_it_is_saved_with_a_schedule() -> None:
    args = PARAMS, np.ones((16, 128))
    done = partir.partition(train_step, B4M2, SCHEDULE, args=args, carry=CARRY)
    again = partir.partition(train_step, B4M2, done.schedule(), args=args, carry=CARRY)
    assert again.collectives == done.collectives


def test_gradients_of_accumulated_microbatches_are_summed_once() -> None:
    """One sum behind the loop is less than moves in each of its iterations."""

    def accumulated(params: Any, state: Any, x: Array) -> Any:
        def add(total: Any, rows: Array) -> Any:
            grads = jax.grad(loss)(params, rows)
            return jax.tree.map(jnp.add, total, grads), None

        grads = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), x)[0]
        state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)
        return jax.tree.map(jnp.subtract, params, state), state

    rows = partir.ManualPartition({"x": 1}, axis="B", name="BP")
    zero = {"params/*": partir.REPLICATED, "state/*": partir.FIRST_DIVISIBLE_DIM}
    rest = partir.Gathered({"state/*": "rest"}, axis="B")
    schedule = [rows, MP, partir.ManualPartition(zero, axis="B", name="Z2"), rest]
    carry = {"out/0": "params", "out/1": "state"}
    counts = []
    for batches in (1, 64):
        args = PARAMS, PARAMS, np.ones((batches, 16, 128))
        done = partir.partition(accumulated, B4M2, schedule, args=args, carry=carry)
        counts.append(done.collectives)
    assert [one["reduce_scatter"] for one in counts] == [0, 2]
    assert counts[1]["all_to_all"] == 0
