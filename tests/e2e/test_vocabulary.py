"""An embedding tiled on its vocabulary: masked lookups, tiled logits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, assert_same

VOCAB, WIDTH, BATCH, LENGTH = 16, 8, 8, 4
ROWS = partir.ManualPartition({"params/table": 0}, axis="M", name="VP")
BP = partir.ManualPartition({"tokens": 0, "targets": 0}, axis="B", name="BP")

pytestmark = pytest.mark.usefixtures("double")


def lookup(params: dict[str, Array], tokens: Array) -> Array:
    return jnp.tanh(params["table"][tokens])


def descend(params: dict[str, Array], tokens: Array) -> dict[str, Array]:
    """One step downhill; repeated tokens add up in the table's gradient."""
    grads = jax.grad(lambda p: jnp.sum(lookup(p, tokens) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def by_lookup(logits: Array, targets: Array) -> Array:
    """The target's own logit is looked up in a tiled dimension."""
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def by_mask(logits: Array, targets: Array) -> Array:
    picked = jax.nn.one_hot(targets, logits.shape[-1]) * jax.nn.log_softmax(logits)
    return -jnp.mean(picked.sum(-1))


def loss_with(cross_entropy: Any) -> Any:
    def loss(params: dict[str, Array], tokens: Array, targets: Array) -> Array:
        hidden = lookup(params, tokens) @ params["w"]
        return cross_entropy(hidden @ params["table"].T, targets)

    return loss


def example() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    params = {"table": rng.normal(size=(VOCAB, WIDTH)), "w": rng.normal(size=(8, 8))}
    return params, *rng.integers(0, VOCAB, (2, BATCH, LENGTH), np.int32)


def run(fn: Any, schedule: list[Any], count: int) -> partir.Partitioned:
    args = example()[:count]
    record = partir.partition(fn, MESH, schedule, args=args)
    assert record.in_specs[0]["table"] == jax.P("M")
    assert not record.replicated_ops
    assert_same(record.compile()(*args), jax.jit(fn)(*args))
    return record


def test_a_lookup_is_masked_and_summed() -> None:
    record = run(lookup, [ROWS], 2)
    counts = record.collectives
    assert counts["all_reduce"] == 1
    assert sum(counts.values()) == 1


def test_the_gradient_of_a_lookup_is_local() -> None:
    record = run(descend, [ROWS], 2)
    assert record.out_specs["table"] == jax.P("M")
    counts = record.collectives
    assert counts["all_reduce"] == 1  # the lookup itself
    assert sum(counts.values()) == 1


def test_out_of_range_tokens() -> None:
    table = np.random.default_rng(0).normal(size=(VOCAB, WIDTH))
    tokens = np.asarray([-3, 0, 7, 8, 15, 16, 99, -17], np.int32)

    def fill(params: dict[str, Array], tokens: Array) -> Any:
        found = params["table"].at[tokens].get(mode="fill", fill_value=7.0)
        clipped = params["table"].at[tokens].get(mode="clip")
        return found, clipped, params["table"].at[tokens].add(1.0, mode="drop")

    args = {"table": table}, tokens
    record = partir.partition(fill, MESH, [ROWS], args=args)
    assert record.out_specs[2] == jax.P("M")
    assert_same(record.compile()(*args), jax.jit(fill)(*args))


@pytest.mark.parametrize("cross_entropy", [by_lookup, by_mask])
def test_training_with_tiled_logits(cross_entropy: Any) -> None:
    """No collective has the size of the logits or of the table."""
    fn = jax.value_and_grad(loss_with(cross_entropy))
    record = run(fn, [ROWS], 3)
    counts = record.collectives
    assert counts["all_reduce"] == sum(counts.values())
    assert record.out_specs[1]["table"] == jax.P("M")
    largest = BATCH * LENGTH * WIDTH * 8
    moved = [one for one in collectives(record) if one > largest]
    assert not moved


def collectives(record: partir.Partitioned) -> list[int]:
    """Bytes of each collective's result."""
    spmd = record.steps[-1].spmd
    return [
        spmd.types[op.results[0]].bytes
        for op in spmd.body.ops
        if type(op).__name__ == "Collective"
    ]


def test_with_data_parallelism() -> None:
    fn = jax.value_and_grad(loss_with(by_lookup))
    record = run(fn, [BP, ROWS], 3)
    assert record.in_specs[1:] == (jax.P("B"), jax.P("B"))
    counts = record.collectives
    assert counts["all_reduce"] == sum(counts.values())
    before = record.steps[0].collectives
    assert before["all_reduce"] == 3  # two gradients and the loss


@pytest.mark.parametrize("axes", ["X", "XY", "YX"])
def test_a_vocabulary_that_does_not_divide(axes: str) -> None:
    """Rows of nine in tiles of five and four, or of 3, 2, 3 and 1.

    What is behind the end of a short tile is no row of the next one.
    """
    table = np.random.default_rng(0).normal(size=(9, WIDTH))
    tokens = np.arange(-11, 12, dtype=np.int32)

    def look(table: Array, tokens: Array) -> Any:
        inner = partir.tag(jnp.log(jnp.exp(table)), "rows")
        found = inner.at[tokens].get(mode="fill", fill_value=7.0)
        added = inner.at[tokens].add(found, mode="drop")
        return found, inner.at[tokens].get(mode="clip"), added.sum(0)

    schedule = [partir.ManualPartition({"rows": 0}, axis=axis) for axis in axes]
    mesh = {"X": 2, "Y": 2}
    record = partir.partition(look, mesh, schedule, args=(table, tokens))
    assert not record.collectives["all_gather"]
    assert not record.replicated_ops
    assert_same(record.compile()(table, tokens), jax.jit(look)(table, tokens))
