"""A mixture of experts with expert parallelism, on the batch's own axis or another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, assert_same

GROUPS, TOKENS, WIDTH, HIDDEN, EXPERTS, CAPACITY = 4, 8, 8, 16, 4, 4
EXPERT_WEIGHTS = {"params/w1": 0, "params/w2": 0}

pytestmark = pytest.mark.usefixtures("double")


def route(params: dict[str, Array], x: Array) -> tuple[Array, Array]:
    """Each token's expert and gate, and its place in the expert's queue."""
    gates = jax.nn.softmax(jnp.einsum("gsd,de->gse", x, params["router"]))
    mask = jax.nn.one_hot(jnp.argmax(gates, axis=-1), EXPERTS, dtype=x.dtype)
    place = jnp.cumsum(mask, axis=1) * mask - 1
    slots = jax.nn.one_hot(place.astype(int), CAPACITY, dtype=x.dtype)
    return partir.tag(slots, "routes"), partir.tag(slots * gates[..., None], "routes")


def experts(params: dict[str, Array], x: Array) -> Array:
    """A two-layer network per expert, over tokens [expert, group, place, width]."""
    x = partir.tag(x, "to_experts")
    hidden = jax.nn.relu(jnp.einsum("egcd,edf->egcf", x, params["w1"]))
    return partir.tag(jnp.einsum("egcf,efd->egcd", hidden, params["w2"]), "made")


def by_einsum(params: dict[str, Array], x: Array, y: Array) -> Array:
    """Tokens are sent by one-hot products (GShard)."""
    dispatch, combine = route(params, x)
    made = experts(params, jnp.einsum("gsec,gsd->egcd", dispatch, x))
    out = partir.tag(jnp.einsum("gsec,egcd->gsd", combine, made), "combined")
    return jnp.mean((x + out - y) ** 2)


def by_sorting(params: dict[str, Array], x: Array, y: Array) -> Array:
    """Tokens sorted by expert, cut at the capacity, scattered back."""
    gates = jax.nn.softmax(jnp.einsum("gsd,de->gse", x, params["router"]))
    expert = jnp.argmax(gates, axis=-1)
    order = jnp.argsort(expert, axis=1, stable=True)
    sorted_expert = jnp.take_along_axis(expert, order, axis=1)
    first = jax.vmap(lambda one: jnp.searchsorted(one, jnp.arange(EXPERTS)))
    starts = jnp.take_along_axis(first(sorted_expert), sorted_expert, axis=1)
    place = jnp.arange(TOKENS) - starts
    tokens = jnp.take_along_axis(x, order[..., None], axis=1)
    gate = jnp.take_along_axis(jnp.max(gates, -1), order, axis=1)

    def send(tokens: Array, expert: Array, place: Array) -> Array:
        queues = jnp.zeros((EXPERTS, CAPACITY, WIDTH), tokens.dtype)
        return queues.at[expert, place].add(tokens, mode="drop")

    def receive(queues: Array, expert: Array, place: Array, order: Array) -> Array:
        back = queues.at[expert, place].get(mode="fill", fill_value=0)
        return jnp.zeros((TOKENS, WIDTH), back.dtype).at[order].set(back)

    queues = jax.vmap(send, out_axes=1)(tokens, sorted_expert, place)
    made = experts(params, queues)
    out = jax.vmap(receive, in_axes=(1, 0, 0, 0))(made, sorted_expert, place, order)
    gate = jax.vmap(lambda g, o: jnp.zeros(TOKENS, g.dtype).at[o].set(g))(gate, order)
    return jnp.mean((x + out * gate[..., None] - y) ** 2)


@dataclass(frozen=True)
class ExpertParallel:
    """Groups of tokens and experts share an axis: tokens change places for experts.

    What routes and combines them stays with its group, in the backward pass too; so
    the products that send tokens loop over groups, and what they read or make is moved.
    """

    name: str = "EP"

    def apply(self, partition: partir.Partition) -> None:
        for name in ("x", "y", "routes", "combined", *EXPERT_WEIGHTS, "made"):
            partition.tile(name, 0, "B")
        for name in ("routes/grad", "combined/grad", "made/grad"):
            for value in partition.values(name):
                partition.tile(value, 0, "B")
        partition.propagate("B")
        for op in partition.conflicts():
            partition.choose(op, op.factors[0], "B")


def example() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    shapes = {
        "router": (WIDTH, EXPERTS),
        "w1": (EXPERTS, WIDTH, HIDDEN),
        "w2": (EXPERTS, HIDDEN, WIDTH),
    }
    params = {name: 0.5 * rng.normal(size=shape) for name, shape in shapes.items()}
    return params, *rng.normal(size=(2, GROUPS, TOKENS, WIDTH))


def run(fn: Any, schedule: list[Any]) -> partir.Partitioned:
    args = example()
    record = partir.partition(fn, MESH, schedule, args=args)
    assert_same(record.compile()(*args), jax.jit(fn)(*args))
    return record


def test_both_ways_of_sending_agree() -> None:
    args = example()
    np.testing.assert_allclose(by_einsum(*args), by_sorting(*args), rtol=1e-12)


def test_experts_on_the_axis_of_the_batch() -> None:
    """There and back again, forward and backward."""
    record = run(by_einsum, [ExpertParallel()])
    assert record.in_specs[0]["w1"] == record.in_specs[1] == jax.P("B")
    counts = record.collectives
    assert (counts["all_to_all"], counts["all_reduce"]) == (2, 1)
    assert sum(counts.values()) == 3
    trained = run(jax.value_and_grad(by_einsum), [ExpertParallel()])
    assert trained.out_specs[1] == {
        "router": jax.P(),
        "w1": jax.P("B"),
        "w2": jax.P("B"),
    }
    assert trained.collectives == {
        "all_gather": 0,
        "all_reduce": 2,  # the loss and the router's gradient
        "reduce_scatter": 0,
        "all_to_all": 3,  # what the experts made is kept for the gradients
        "collective_permute": 0,
    }


@pytest.mark.parametrize(("fn", "sums"), [(by_einsum, 4), (by_sorting, 1)])
def test_experts_on_an_axis_of_their_own(fn: Any, sums: int) -> None:
    """Tokens stay; what the experts made of them is summed over the experts.

    Routes by one-hot products are tiled by expert back to the gates: their softmax is
    over a tiled dimension then, and the choice of an expert needs all of them.
    """
    schedule = [
        partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP"),
        partir.ManualPartition(EXPERT_WEIGHTS, axis="M", name="EP"),
    ]
    record = run(jax.value_and_grad(fn), schedule)
    assert record.out_specs[1]["w1"] == record.in_specs[0]["w1"] == jax.P("M")
    assert record.steps[0].collectives["all_reduce"] == 4  # gradients and the loss
    counts = record.collectives
    assert counts["all_reduce"] == 4 + sums
    assert record.replicated_ops == ()
    moves = sum(counts.values()) - counts["all_reduce"]
    assert moves <= 2 * (fn is by_einsum)
