"""Steps in a row: results go in again as they came out, donated or not."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from benchmarks.models import schedules, transformer
from tests.e2e.compare import MESH, QUICK, TINY, assert_same, transformer_start

CARRY = {"out/0": "params", "out/1": "opt_state"}

pytestmark = pytest.mark.usefixtures("double")


@functools.cache
def alone(steps: int) -> Any:
    """Results of plain jax on one device."""
    state, batch = transformer_start(TINY)
    step = jax.jit(transformer.train_step, compiler_options=QUICK)
    for _ in range(steps):
        *state, loss = step(*state, *batch)
    return (*state, loss)


@pytest.mark.parametrize("name", ["BP+MP+Z2", "BP+MP+Z3"])
@pytest.mark.parametrize("donate", [False, True])
def test_steps(name: str, donate: bool) -> None:
    step = partir.jit(
        transformer.train_step,
        MESH,
        schedules.SCHEDULES[name],
        donate_argnums=(0, 1) if donate else (),
        carry=None if donate else CARRY,
        compiler_options=QUICK,
    )
    state, batch = transformer_start(TINY)
    partitioned = step.partitioned(*state, *batch)
    *state, tokens, targets = partitioned.shard(*state, *batch)
    wanted = partitioned.in_shardings()[:2]
    jitted = None
    for _ in range(3):
        before = state
        with jax.transfer_guard("disallow"):  # nothing is copied, nor moved
            *state, loss = step(*state, tokens, targets)
        assert jax.tree.map(lambda a: a.sharding, tuple(state)) == wanted
        assert all(a.is_deleted() == donate for a in jax.tree.leaves(before))
        (compiled,) = step._compiled.values()
        jitted = jitted or compiled.jitted
        assert compiled.jitted is jitted
        assert jitted._cache_size() == 1
    assert_same((*state, loss), alone(3))


def test_a_donated_argument_can_not_be_used_again() -> None:
    double = partir.jit(
        lambda x: 2 * x,
        MESH,
        [partir.ManualPartition({"x": 0}, axis="B")],
        donate_argnames="x",
    )
    x = double(jnp.arange(8.0))
    double(x)
    with pytest.raises(partir.PartitionError, match='"x" has been deleted'):
        double(x)


def test_without_carry_state_may_come_back_otherwise() -> None:
    """Z2 keeps parameters whole; nothing ties the new ones to the old."""
    state, batch = transformer_start(TINY)
    for carry in (None, CARRY):
        partitioned = partir.partition(
            transformer.train_step,
            MESH,
            schedules.SCHEDULES["BP+MP+Z2"],
            args=(*state, *batch),
            carry=carry,
        )
        same = partitioned.out_specs[:2] == partitioned.in_specs[:2]
        assert same or carry is None


def test_donated_state_is_found_inside_the_result() -> None:
    """What succeeds it need not stand at the top, if it can't be mistaken."""

    def step(params: Any, x: Any) -> Any:
        new = jax.tree.map(lambda p: p - jnp.mean(x), params)
        return {"metrics": {"loss": jnp.mean(x)}, "state": {"params": new}}

    params = {"w": jnp.ones((8, 8)), "b": jnp.ones(8)}
    rows = partir.ManualPartition({"params/w": 1, "params/b": 0}, axis="M")
    given = partir.jit(step, MESH, [rows], donate_argnames="params")
    partitioned = given.partitioned(params=params, x=jnp.ones(8))
    (specs,) = partitioned.in_specs
    assert partitioned.out_specs["state"]["params"] == specs["params"]
    ties = [tie for tie in partitioned.program.ties if tie.owner is None]
    assert len(ties) == 2
    placed = partitioned.shard(params=params)[0]["params"]
    given(params=placed, x=jnp.ones(8))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(placed))
